"""Fault rules, and the checks that refuse a rule without effect."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import msgspec

from hetzner_emulator.errors import STATUSES, ApiError, InvalidInput
from hetzner_emulator.wire.fields import Fields

MAX_WAIT = 3600.0
"""The maximum delay in seconds. A longer delay has the same effect, because clients have shorter timeouts."""
_Wait = Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT)]
_Problems = dict[str, list[str]]


class FaultRule(msgspec.Struct, frozen=True):
    """A fault of requests or actions that match."""

    id: int = 0  # assigned when the rule is added
    method: str = "*"  # glob of the method
    path: str = "*"  # glob of the path without `/v1`, or of its template such as `/servers/{id}`
    command: str = ""  # in place of method and path: glob of an action's command; such actions fail
    times: Annotated[int, msgspec.Meta(ge=1)] | None = None  # number of faults; None means no limit
    skip: Annotated[int, msgspec.Meta(ge=0)] = 0  # number of matching requests before the first fault
    probability: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0  # of a fault of a matching request
    seed: int = 0  # of the random generator for the probability
    latency: _Wait = 0.0  # seconds before the request takes effect
    hold: _Wait = 0.0  # seconds between the effect and the response
    status: int = 0  # of the error; if 0, that of `code`
    code: str = ""  # error code; with `raw` the response isn't JSON
    message: str = "fault injected by the sandbox"  # of the error
    after: bool = False  # the request takes effect before the error
    # close the connection `before` or `after` the effect, without a response
    drop: Literal["", "before", "after"] = ""
    truncated_page: bool = False  # a listing has half of its entries, but `meta` counts all
    truncated_body: bool = False  # the connection closes after half of the body
    empty_listing: bool = False  # a listing has no entries, and `meta` counts none
    stale: bool = False  # GET returns the project's first matching response
    raw: bool = False  # the error is an HTML page, like that of a proxy

    def matches(self, method: str, path: str, template: str) -> bool:
        """Whether the rule applies to a request."""
        return (
            not self.command
            and fnmatchcase(method, self.method)
            and (fnmatchcase(path, self.path) or template == self.path)
        )

    @property
    def error(self) -> ApiError | None:
        """The error of the response, or None."""
        if not self.code and not self.status:
            return None
        code = self.code or next((c for c, s in STATUSES.items() if s == self.status), "server_error")
        return ApiError(code, self.message, status=self.status or None)


_ERROR = ("code", "status")
_LISTING = ("stale", "empty_listing", "truncated_page")
_ANSWER = ("after", "message", *_ERROR, *_LISTING, "truncated_body", "raw")
_EFFECTS = ("latency", "hold", "drop", *_ERROR, *_LISTING, "truncated_body", "raw")
_OF_ACTIONS = frozenset({"command", "code", "message", "times", "skip", "probability", "seed"})
_NOT_BESIDE: Mapping[str, tuple[str, ...]] = {
    "command": tuple(name for name in FaultRule.__struct_fields__ if name not in _OF_ACTIONS),
    "drop": _ANSWER,
    **dict.fromkeys(_ERROR, _LISTING),
    "stale": ("empty_listing", "truncated_page"),
    "empty_listing": ("truncated_page",),
    "raw": ("truncated_body", "message"),
}
"""For each field, the fields that have no effect if this field is set."""


def read_rule(body: Any, identity: int) -> FaultRule:
    """Decode a rule; refuses fields that are unknown, have an invalid value, or would change nothing."""
    fields = Fields(body)
    fields.only(*(name for name in FaultRule.__struct_fields__ if name != "id"))
    fields.check()
    try:
        rule = msgspec.convert({**fields.body, "id": identity}, FaultRule)
    except msgspec.ValidationError as error:
        text, _, field = str(error).partition(" - at `$.")
        raise InvalidInput({field.rstrip("`"): [text]}) from error
    if problems := _never_matches(rule) or _without_effect(rule):
        raise InvalidInput(problems)
    return rule


def _never_matches(rule: FaultRule) -> _Problems:
    problems = {}
    if rule.status and not 400 <= rule.status <= 599:
        problems["status"] = ["must be an HTTP error status from 400 to 599"]
    if rule.method != rule.method.upper():
        problems["method"] = [f"must be in capitals: {rule.method.upper()}"]
    if rule.path[:1] not in {*"/*?["} or rule.path.startswith("/v1/"):
        meant = "/" + rule.path.removeprefix("/v1").lstrip("/")
        problems["path"] = [f"must begin with / and must not contain /v1: {meant}"]
    for name in _LISTING:
        if getattr(rule, name) and not fnmatchcase("GET", rule.method):
            problems[name] = [f"applies only to responses to GET requests, but the method is {rule.method}"]
    return problems


def _without_effect(rule: FaultRule) -> _Problems:
    """Find fields that would change nothing."""
    fields = msgspec.structs.fields(FaultRule)
    given = [f.name for f in fields if f.name != "id" and getattr(rule, f.name) != f.default]
    problems: _Problems = {}
    for name in given:
        for other in _NOT_BESIDE.get(name, ()):
            if other in given:
                problems.setdefault(other, [f"has no effect together with '{name}'"])
    if rule.error is None and not rule.command:
        for name in ("after", "message"):
            if name in given:
                problems.setdefault(name, ["applies only to error responses. Add 'code' or 'status'"])
    if rule.hold and (rule.drop == "before" or (rule.error and not rule.after)):
        problems.setdefault(
            "hold", ["applies only if the emulator executes the request, but this rule prevents that"]
        )
    if not problems and not rule.command and not any(name in given for name in _EFFECTS):
        problems["body"] = [f"the rule has no effect. Set one of: {', '.join(_EFFECTS)}"]
    return problems
