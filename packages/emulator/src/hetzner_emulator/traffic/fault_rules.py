"""What a fault rule is, and which are none: refused is what would do nothing, or not what it says."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from hetzner_emulator.errors import STATUSES, ApiError, InvalidInput

DROPS = ("", "before", "after")
LONGEST_WAIT = 3600.0
"""Seconds that a rule may let a client wait: more than any client does."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "int | None": (int, type(None)),
}
_Problems = dict[str, list[str]]


@dataclass(frozen=True)
class FaultRule:
    """What goes wrong with requests that match.

    Attributes:
        id: Given out when the rule is added.
        method: Glob of the method.
        path: Glob of the path without ``/v1``, or of its template such as ``/servers/{id}``.
        command: Instead of method and path: glob of an action's command; such actions end as errors.
        times: How often it happens; None means always.
        skip: How many matching requests pass first.
        probability: Of happening to a matching request.
        seed: Of the randomness behind the probability.
        latency: Seconds before anything else happens.
        hold: Seconds that the answer is held back after the effect.
        status: Of the error; taken from ``code`` when it is 0.
        code: Error code; with ``raw`` the answer is no JSON at all.
        message: Of the error.
        after: The request takes effect before the error is answered.
        drop: ``before`` or ``after`` the effect: the connection is cut without an answer.
        truncated_page: Half of a listing's entries are missing, unnoticed by ``meta``.
        truncated_body: The body ends half-way, and so does the connection.
        empty_listing: A listing has no entries and says so in ``meta``.
        stale: Answers of GETs are those of the project's first matching request.
        raw: The error is an HTML page, as from a proxy.
    """

    id: int = 0
    method: str = "*"
    path: str = "*"
    command: str = ""
    times: int | None = None
    skip: int = 0
    probability: float = 1.0
    seed: int = 0
    latency: float = 0.0
    hold: float = 0.0
    status: int = 0
    code: str = ""
    message: str = "fault injected by the sandbox"
    after: bool = False
    drop: str = ""
    truncated_page: bool = False
    truncated_body: bool = False
    empty_listing: bool = False
    stale: bool = False
    raw: bool = False

    def matches(self, method: str, path: str, template: str) -> bool:
        """Whether a request is concerned."""
        return (
            not self.command
            and fnmatchcase(method, self.method)
            and (fnmatchcase(path, self.path) or template == self.path)
        )

    @property
    def error(self) -> ApiError | None:
        """The error to answer with, or None."""
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
    "command": tuple(field.name for field in dataclasses.fields(FaultRule) if field.name not in _OF_ACTIONS),
    "drop": _ANSWER,
    **dict.fromkeys(_ERROR, _LISTING),
    "stale": ("empty_listing", "truncated_page"),
    "empty_listing": ("truncated_page",),
    "raw": ("truncated_body", "message"),
}
"""Fields that have no meaning beside one that is set."""


def read_rule(body: Any, identity: int) -> FaultRule:
    """A rule from JSON.

    Raises:
        InvalidInput: A field is unknown, has a wrong type, or would change nothing.
    """
    if not isinstance(body, dict):
        raise InvalidInput({"body": ["must be an object"]})
    problems = _wrong_fields(body)
    if not problems:
        rule = FaultRule(**body, id=identity)
        problems = _wrong_values(rule) or _never_true(rule) or _without_meaning(rule)
        if not problems:
            return rule
    raise InvalidInput(problems)


def _wrong_fields(body: Mapping[str, Any]) -> _Problems:
    known = {field.name: str(field.type) for field in dataclasses.fields(FaultRule) if field.name != "id"}
    problems = {}
    for name, value in body.items():
        if name not in known:
            problems[name] = [f"unknown; allowed: {', '.join(sorted(known))}"]
        # True is a number to Python.
        elif not isinstance(value, _TYPES[known[name]]) or (
            isinstance(value, bool) and known[name] != "bool"
        ):
            problems[name] = [f"must be of type {known[name]}"]
    return problems


def _wrong_values(rule: FaultRule) -> _Problems:
    problems = {}
    for name in ("times", "skip", "probability", "latency", "hold", "status"):
        if (getattr(rule, name) or 0) < 0:
            problems[name] = ["must not be negative"]
    if rule.drop not in DROPS:
        problems["drop"] = ["must be 'before' or 'after'"]
    if rule.probability > 1:
        problems["probability"] = ["must not be more than 1"]
    for name in ("latency", "hold"):
        if not getattr(rule, name) <= LONGEST_WAIT:
            problems[name] = [f"must not be more than {LONGEST_WAIT:g} seconds"]
    if rule.status and not 400 <= rule.status <= 599:
        problems.setdefault("status", ["must be that of an error, 400 to 599"])
    return problems


def _never_true(rule: FaultRule) -> _Problems:
    """What would never match anything, or never strike."""
    problems = {}
    for name in ("method", "path", "command"):
        if _is_open(getattr(rule, name)):
            problems[name] = ["begins a set of characters with [ and does not end it with ]"]
    if rule.method != rule.method.upper():
        problems["method"] = [f"must be in capitals: {rule.method.upper()}"]
    if rule.path[:1] not in {*"/*?["} or rule.path.startswith("/v1/"):
        meant = "/" + rule.path.removeprefix("/v1").lstrip("/")
        problems["path"] = [f"begins with / and is without /v1: {meant}"]
    for name in ("times", "probability"):
        if getattr(rule, name) == 0:
            problems[name] = ["must be more than 0: the rule would never strike"]
    for name in _LISTING:
        if getattr(rule, name) and not fnmatchcase("GET", rule.method):
            problems[name] = [f"is about what GET answers, and the method is {rule.method}"]
    return problems


def _without_meaning(rule: FaultRule) -> _Problems:
    """What is given and would change nothing; or everything, of a rule without effect."""
    given = [
        f.name for f in dataclasses.fields(rule) if f.name != "id" and getattr(rule, f.name) != f.default
    ]
    problems: _Problems = {}
    for name in given:
        for other in _NOT_BESIDE.get(name, ()):
            if other in given:
                problems.setdefault(other, [f"has no meaning beside {name}"])
    if rule.error is None and not rule.command:
        for name in ("after", "message"):
            if name in given:
                problems.setdefault(name, ["is about an error: give its code or status, too"])
    if rule.hold and (rule.drop == "before" or (rule.error and not rule.after)):
        problems.setdefault("hold", ["is the time after the effect, and there is none"])
    if not problems and not rule.command and not any(name in given for name in _EFFECTS):
        problems["body"] = [f"nothing would go wrong; give one of: {', '.join(_EFFECTS)}"]
    return problems


def _is_open(glob: str) -> bool:
    """Whether a ``[`` has no ``]``: ``fnmatch`` takes it for a character, which no name has."""
    return "[" in re.sub(r"\[!?+\]?+[^\]]*\]", "", glob)
