"""What goes wrong while a cluster is changed: the rows of the matrix."""

import time
import urllib.error
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e import cluster_state, machine_faults, server_loss
from tests.e2e.cluster_changes import CHANGES, Change
from tests.e2e.conftest import Clone, eventually
from tests.e2e.pulumi_runs import Run

RUN_SECONDS = 720.0
"""A connection that hangs is noticed after half a minute, a server that does not boot after three."""
KILL_AFTER_SECONDS = 0.5
"""So long after its line is printed a step is at work."""
STRIKES = 3
WRITES = "[!G]*"
PATHS = ("/servers*", "/networks*", "/load_balancers*", "/ssh_keys*", "/placement_groups*", "/firewalls*")


@dataclass
class Struck:
    times: int = 0  # how often the fault struck
    failed: int = 0  # how many of the runs failed or were killed
    said: list[str] = field(default_factory=list)  # what each run printed

    def note(self, run: Run) -> None:
        self.failed += run.failed
        self.said.append(run.said)


Strike = Callable[[Clone, Change], Struck]
"""Makes a change while something goes wrong; that is over when it returns."""


def words(change: Change) -> Sequence[str]:
    return cluster_state.DESTROY if change.ends else cluster_state.UP


def nothing(clone: Clone, change: Change) -> Struck:
    struck = Struck(times=1)
    with Run(clone, *words(change)) as run:
        struck.note(run.end(RUN_SECONDS))
    return struck


def api(*rules: Mapping[str, Any]) -> Strike:
    """The cloud's API does what rules say, until the run is over."""

    def strike(clone: Clone, change: Change) -> Struck:
        for rule in rules:
            clone.admin("/faults", {**rule})
        struck = Struck()
        try:
            with Run(clone, *words(change)) as run:
                struck.note(run.end(RUN_SECONDS))
            struck.times = sum(rule["hits"] for rule in clone.admin("/faults")["faults"])
        finally:
            clone.admin("/faults", method="DELETE")
        return struck

    return strike


def killed(clone: Clone, change: Change) -> Struck:
    """The engine is killed at each of the change's moments; the next run goes on until the next one."""
    struck = Struck()
    for moment in change.moments:
        with Run(clone, *words(change)) as run:
            if run.comes_to(moment, RUN_SECONDS):
                time.sleep(KILL_AFTER_SECONDS)
                struck.times += not run.ended
                run.kill()
            struck.note(run)
    return struck


def not_booting(clone: Clone, change: Change) -> Struck:
    """The server that is made goes off as soon as it is there, and is deleted by its owner afterwards."""
    before = clone.server_ids().get(change.makes)
    struck = Struck()
    with Run(clone, *words(change)) as run:
        made = _until_made(clone, change, before, run)
        eventually(lambda: _power_off(clone, made), machine_faults.SECONDS, f"{change.makes} goes off")
        struck.times = 1
        struck.note(run.end(RUN_SECONDS))
    server_loss.lose(clone, [change.makes])
    return struck


def hanging(clone: Clone, change: Change) -> Struck:
    """Whatever is sent to the SSH port of the server that is worked on is lost, from then on."""
    before = clone.server_ids().get(change.works_on)
    struck = Struck()
    with Run(clone, *words(change)) as run:
        if run.comes_to(change.reached, RUN_SECONDS):
            made = change.works_on == change.makes
            server = _until_made(clone, change, before, run) if made else int(before or 0)
            machine_faults.until_done(clone, server, machine_faults.HANG)
            struck.times = 1
            struck.note(run.end(RUN_SECONDS))
            if server in clone.server_ids().values():
                machine_faults.until_done(clone, server, machine_faults.ANSWER)
    return struck


def dying(clone: Clone, change: Change) -> Struck:
    """The server that is drained loses its power once its Node is cordoned; it comes back if it stays."""
    struck = Struck()
    with Run(clone, *words(change)) as run:
        reached = lambda: run.ended or _cordoned(clone, change.drains)  # noqa: E731
        eventually(reached, RUN_SECONDS, "a Node is cordoned", pause=0.2)
        if not run.ended:
            server_loss.power(clone, change.drains, "poweroff")
            struck.times = 1
        struck.note(run.end(RUN_SECONDS))
    if change.starts:
        server_loss.power(clone, change.drains, "poweron")
        eventually(
            lambda: cluster_state.shell(clone, change.drains, "true") is not None,
            machine_faults.SECONDS,
            "it is back",
        )
    return struck


def not_starting(clone: Clone, change: Change) -> Struck:
    """K3s ends at once whenever it is started on the server that is worked on."""
    before = clone.server_ids().get(change.works_on)
    struck = Struck()
    if change.works_on != change.makes:
        machine_faults.until_done(clone, int(before or 0), machine_faults.FAIL)
    with Run(clone, *words(change)) as run:
        if change.works_on == change.makes:
            made = _until_made(clone, change, before, run)
            machine_faults.until_done(clone, made, machine_faults.FAIL)
        struck.times = 1
        struck.note(run.end(RUN_SECONDS))
    machine_faults.until_done(clone, clone.server_ids()[change.works_on], machine_faults.START)
    return struck


def _until_made(clone: Clone, change: Change, before: int | None, run: Run) -> int:
    def look() -> int | None:
        assert not run.ended, f"the run ended before it made {change.makes}:\n{run.said}"
        found = clone.server_ids().get(change.makes)
        return None if found == before else found

    return eventually(look, machine_faults.SECONDS, f"{change.makes} is made", pause=0.2)


def _power_off(clone: Clone, server: int) -> bool:
    try:
        clone.api(f"/servers/{server}/actions/poweroff", body={}, method="POST")
    except urllib.error.HTTPError as error:
        if error.code != 423:
            raise
        return False  # it is locked while it is made
    return True


def _cordoned(clone: Clone, role: str) -> bool:
    said = cluster_state.asked(
        clone, "get", "node", cluster_state.PREFIX + role, "--output=jsonpath={.spec.unschedulable}"
    )
    return said is not None and said.strip() == "true"


@dataclass(frozen=True)
class Fault:
    name: str  # of the row
    strike: Strike  # makes a change under it
    strikes: Callable[[Change], object] = lambda _: True  # whether it can strike a change


_ALL = (
    Fault("no fault", nothing),
    Fault("SIGKILL of the engine", killed),
    Fault(
        "lost answers",
        api(*({"method": WRITES, "path": path, "drop": "after", "times": STRIKES} for path in PATHS)),
    ),
    Fault(
        "API 429",
        api(*({"path": path, "code": "rate_limit_exceeded", "times": STRIKES} for path in PATHS)),
    ),
    Fault("API 500", api({"method": WRITES, "code": "server_error", "skip": 1})),
    Fault("a server never boots", not_booting, lambda change: change.makes),
    Fault("SSH hangs", hanging),
    Fault("the drained node dies", dying, lambda change: change.drains),
    Fault("k3s does not start", not_starting, lambda change: change.starts),
)
FAULTS: Mapping[str, Fault] = {fault.name: fault for fault in _ALL}


def cells() -> list[tuple[Change, Fault]]:
    """All changes under all faults that can strike them, fault by fault."""
    return [
        (change, fault) for fault in FAULTS.values() for change in CHANGES.values() if fault.strikes(change)
    ]
