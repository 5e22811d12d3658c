"""Faults by rule: what goes wrong, where, how often; reproducible by seed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random
from typing import Any

from sandbox.cloud.errors import STATUSES, ApiError, InvalidInput
from sandbox.cloud.wire.reply import Reply

DROPS = ("", "before", "after")
LONGEST_WAIT = 3600.0
"""Seconds that a rule may let a client wait: more than any client does."""
MOST_STALE = 1000
"""Answers that are kept for all rules: a client can ask for any number of addresses."""
_TYPES = {"str": str, "int": int, "float": (int, float), "bool": bool, "int | None": int}


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


def read_rule(body: Any, identity: int) -> FaultRule:
    """A rule from JSON.

    Raises:
        InvalidInput: A field is unknown or has a wrong type.
    """
    known = {field.name: str(field.type) for field in dataclasses.fields(FaultRule)}
    problems: dict[str, list[str]] = {}
    values = dict(body) if isinstance(body, dict) else {}
    for name, value in values.items():
        if name not in known or name == "id":
            problems[name] = [f"unknown; allowed: {', '.join(sorted(set(known) - {'id'}))}"]
        elif not isinstance(value, _TYPES[known[name]]) and not (value is None and "None" in known[name]):  # type: ignore[arg-type]
            problems[name] = [f"must be of type {known[name]}"]
    if values.get("drop", "") not in DROPS:
        problems["drop"] = ["must be 'before' or 'after'"]
    numbers = {name: v for name, v in values.items() if isinstance(v, (int, float)) and name != "seed"}
    problems |= {name: ["must not be negative"] for name, value in numbers.items() if value < 0}
    if not problems:
        problems |= _never_true(values)
    if not problems and values.get("status") and not 400 <= values["status"] <= 599:
        problems["status"] = ["must be that of an error, 400 to 599"]
    if not isinstance(body, dict) or problems:
        raise InvalidInput(problems or {"body": ["must be an object"]})
    return dataclasses.replace(FaultRule(**values), id=identity)


def _never_true(values: dict[str, Any]) -> dict[str, list[str]]:
    """What is of the right type, but would never match anything, or not as often as it says."""
    method, path = values.get("method", "*"), values.get("path", "*")
    problems = {}
    if method != method.upper():
        problems["method"] = [f"must be in capitals: {method.upper()}"]
    if path[:1] not in {*"/*?["} or path.startswith("/v1/"):
        meant = "/" + path.removeprefix("/v1").lstrip("/")
        problems["path"] = [f"begins with / and is without /v1: {meant}"]
    if values.get("probability", 0) > 1:
        problems["probability"] = ["must not be more than 1"]
    for name in ("latency", "hold"):
        if not values.get(name, 0) <= LONGEST_WAIT:
            problems[name] = [f"must not be more than {LONGEST_WAIT:g} seconds"]
    return problems


@dataclass
class _Active:
    rule: FaultRule
    randomness: Random
    seen: int = 0
    hits: int = 0


class Faults:
    """The rules in force; the first that strikes wins."""

    def __init__(self) -> None:
        self._active: list[_Active] = []
        self._next_id = 1
        self._memory: dict[tuple[int, str, str], Reply] = {}

    def add(self, body: Any) -> FaultRule:
        """Put a rule from JSON in force.

        Raises:
            InvalidInput: It is not a rule.
        """
        rule = read_rule(body, self._next_id)
        self._next_id += 1
        self._active.append(_Active(rule, Random(rule.seed)))  # noqa: S311  reproducible on purpose
        return rule

    def remove(self, identity: int | None = None) -> None:
        """Lift one rule, or all."""
        self._active = [active for active in self._active if identity not in {None, active.rule.id}]
        self._memory = {key: kept for key, kept in self._memory.items() if identity not in {None, key[0]}}

    def listing(self) -> list[dict[str, Any]]:
        """The rules with how often each matched and struck."""
        return [{**dataclasses.asdict(a.rule), "seen": a.seen, "hits": a.hits} for a in self._active]

    def for_request(self, method: str, path: str, template: str) -> FaultRule | None:
        """The rule that strikes this request, if any; counts it."""
        for active in self._active:
            if active.rule.matches(method, path, template) and self._strikes(active):
                return active.rule
        return None

    def for_command(self, command: str) -> tuple[str, str] | None:
        """Code and message with which an action of this command shall end, if any; counts it."""
        for active in self._active:
            rule = active.rule
            if rule.command and fnmatchcase(command, rule.command) and self._strikes(active):
                return rule.code or "action_failed", rule.message
        return None

    def _strikes(self, active: _Active) -> bool:
        rule = active.rule
        active.seen += 1
        if active.seen <= rule.skip or (rule.times is not None and active.hits >= rule.times):
            return False
        if rule.probability < 1 and active.randomness.random() >= rule.probability:
            return False
        active.hits += 1
        return True

    def stale(self, rule: FaultRule, project: str, address: str, reply: Reply) -> Reply:
        """The first answer that this project was ever given for this rule and address.

        Where :data:`MOST_STALE` answers are kept, others are given as they are.
        """
        key = (rule.id, project, address)
        if len(self._memory) < MOST_STALE:
            self._memory.setdefault(key, reply)
        return self._memory.get(key, reply)


def spoil(rule: FaultRule, reply: Reply) -> Reply:
    """What a rule makes of a listing; other answers stay."""
    if not isinstance(reply.body, dict) or "meta" not in reply.body:
        return reply
    name = next(key for key in reply.body if key != "meta")
    entries = reply.body[name]
    if rule.empty_listing:
        meta = {"page": 1, "per_page": 50, "previous_page": None, "next_page": None, "last_page": 1}
        return Reply(200, {name: [], "meta": {"pagination": {**meta, "total_entries": 0}}})
    if rule.truncated_page:
        return Reply(reply.status, {**reply.body, name: entries[: len(entries) // 2]}, reply.headers)
    return reply
