"""What can go wrong between the CCM and the cloud: the columns of the matrix."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

READS, WRITES = "GET", "[!G]*"  # globs of methods
# What the CCM talks about. A rule is made for each, so that one kind of request does not use up the faults of
# another.
PATHS = ("/servers*", "/networks*", "/load_balancers*", "/certificates*", "/actions*")
STRIKES = 2  # how often a fault hits each kind of request
WHILE = 0.5  # seconds for which the cloud lies at least, where it lies rather than fails
STRIKING = 30.0  # seconds within which a lie has to be met
# Seconds are nothing to a person and everything to a matrix of two hundred cells; busy machines need some.
ANSWER_TIMEOUT = 1.5  # seconds after which the CCM in the lab gives up on an answer, where answers are late
LATE = 2.0  # seconds that a late answer takes


@dataclass(frozen=True)
class Fault:
    name: str  # the column's heading
    # of the emulated cloud, without method, path and number; see docs/reference/sandbox-admin-api.md
    rule: Mapping[str, Any] = field(default_factory=dict)
    # it is no error but a wrong answer; then it lasts for a while instead of striking twice
    lies: bool = False
    foreign_token: bool = False  # instead of a rule: the token is another project's for a while

    @property
    def late(self) -> bool:
        """Whether answers come late, or never."""
        return bool({"latency", "hold"} & set(self.rule))


NOTHING = Fault("no fault")
_ALL = (
    Fault("429", {"code": "rate_limit_exceeded"}),
    Fault("500", {"code": "server_error"}),
    Fault("503", {"code": "unavailable"}),
    Fault("500 after the effect", {"code": "server_error", "after": True}),
    Fault("timeout before the effect", {"latency": LATE, "drop": "before"}),
    Fault("timeout after the effect", {"hold": LATE}),
    Fault("timeout, effect later", {"latency": LATE}),
    Fault("dropped before the effect", {"drop": "before"}),
    Fault("dropped after the effect", {"drop": "after"}),
    Fault("half an answer", {"truncated_body": True}),
    Fault("a proxy's page", {"status": 502, "raw": True}),
    Fault("locked", {"code": "locked"}),
    Fault("conflict", {"code": "conflict"}),
    Fault("truncated page", {"truncated_page": True}, lies=True),
    Fault("empty listing", {"empty_listing": True}, lies=True),
    Fault("stale answers", {"stale": True}, lies=True),
    Fault("foreign token", lies=True, foreign_token=True),
)
FAULTS: Mapping[str, Fault] = {fault.name: fault for fault in _ALL}


def rules(fault: Fault) -> list[dict[str, Any]]:
    if fault.lies:
        return [{**fault.rule, "method": READS, "path": path} for path in PATHS]
    methods = (READS, WRITES)
    return [
        {**fault.rule, "method": method, "path": path, "times": STRIKES}
        for path in PATHS
        for method in methods
    ]
