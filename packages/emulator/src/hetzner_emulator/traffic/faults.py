"""Injected faults, which a seed makes reproducible."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random
from typing import Any

import msgspec

from hetzner_emulator.errors import NotFound
from hetzner_emulator.traffic.fault_rules import FaultRule, read_rule
from hetzner_emulator.wire.pagination import MAX_PER_PAGE, Page
from hetzner_emulator.wire.reply import Reply


@dataclass
class _Active:
    rule: FaultRule
    randomness: Random
    seen: int = 0
    hits: int = 0


class Faults:
    """The active rules; the first that applies to a request wins."""

    def __init__(self) -> None:
        self._active: list[_Active] = []
        self._next_id = 1
        self._memory: dict[tuple[int, str, str], Reply] = {}

    def add(self, body: Any) -> FaultRule:
        """Add a rule from JSON; raises InvalidInput."""
        rule = read_rule(body, self._next_id)
        self._next_id += 1
        self._active.append(_Active(rule, Random(rule.seed)))  # noqa: S311  reproducible on purpose
        return rule

    def remove(self, identity: int | None = None) -> None:
        """Remove one rule, or all; raises NotFound without one of this ID."""
        if identity is not None and all(active.rule.id != identity for active in self._active):
            raise NotFound("fault_rule", identity)
        self._active = [active for active in self._active if identity not in {None, active.rule.id}]
        self._memory = {key: kept for key, kept in self._memory.items() if identity not in {None, key[0]}}

    def listing(self) -> list[dict[str, Any]]:
        """The rules, with the number of requests that matched (``seen``) and failed (``hits``)."""
        return [{**msgspec.structs.asdict(a.rule), "seen": a.seen, "hits": a.hits} for a in self._active]

    def for_request(self, method: str, path: str, template: str) -> FaultRule | None:
        """The rule that applies to this request, if any; counts it."""
        for active in self._active:
            if active.rule.matches(method, path, template) and self._applies(active):
                return active.rule
        return None

    def for_command(self, command: str) -> tuple[str, str] | None:
        """Code and message of the rule that applies to an action of this command, if any; counts it."""
        for active in self._active:
            rule = active.rule
            if rule.command and fnmatchcase(command, rule.command) and self._applies(active):
                return rule.code or "action_failed", rule.message
        return None

    def _applies(self, active: _Active) -> bool:
        rule = active.rule
        active.seen += 1
        if active.seen <= rule.skip or (rule.times is not None and active.hits >= rule.times):
            return False
        if rule.probability < 1 and active.randomness.random() >= rule.probability:
            return False
        active.hits += 1
        return True

    def stale(self, rule: FaultRule, project: str, address: str, reply: Reply) -> Reply:
        """The project's first response for this rule and address."""
        return self._memory.setdefault((rule.id, project, address), reply)


def corrupt(rule: FaultRule, reply: Reply) -> Reply:
    """Apply a rule to a listing; other responses stay."""
    if not isinstance(reply.body, dict) or "meta" not in reply.body:
        return reply
    name = next(key for key in reply.body if key != "meta")
    entries = reply.body[name]
    if rule.empty_listing:
        return Reply(200, {name: [], "meta": Page(1, MAX_PER_PAGE, 0).meta()})
    if rule.truncated_page:
        return Reply(reply.status, {**reply.body, name: entries[: len(entries) // 2]}, reply.headers)
    return reply
