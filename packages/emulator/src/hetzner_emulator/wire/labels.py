"""Labels and label selectors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hetzner_emulator.errors import InvalidInput

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_KEY = re.compile(rf"(?:(?P<prefix>{_PREFIX})/)?(?P<name>{_NAME})")
_VALUE = re.compile(rf"(?:{_NAME})?")
_RESERVED = "hetzner.cloud"
_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^=!\s]+)\s*(?P<operator>==|!=|=)\s*(?P<value>\S*)")


@dataclass(frozen=True)
class Requirement:
    """A part of a selector; ``operator`` is in, notin, exists, absent, or other (exists, and not in)."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels satisfy the requirement."""
        if self.operator == "exists":
            return self.key in labels
        if self.operator == "absent":
            return self.key not in labels
        if self.operator == "other":
            return self.key in labels and labels[self.key] not in self.values
        return (self.key in labels and labels[self.key] in self.values) is (self.operator == "in")


@dataclass(frozen=True)
class Selector:
    """A conjunction of requirements; without any it matches everything."""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels satisfy every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def of_present_keys(self) -> Selector:
        """The selector in which ``k!=v`` requires a label ``k``."""
        return Selector(
            tuple(replace(r, operator="other") if r.operator == "notin" else r for r in self.requirements)
        )


def is_key(key: str) -> bool:
    """Whether this is a valid key, apart from the reserved prefix."""
    match = _KEY.fullmatch(key)
    return match is not None and len(match["prefix"] or "") <= 253


def is_value(value: str) -> bool:
    """Whether this is a valid value."""
    return _VALUE.fullmatch(value) is not None


def label_problems(labels: Mapping[str, object]) -> list[str]:
    """Describe what is invalid in labels."""
    problems: list[str] = []
    for key, value in labels.items():
        if not is_key(key):
            problems.append(f"label key '{key}' is not correctly formatted")
        elif key.partition("/")[0] == _RESERVED and "/" in key:
            problems.append(f"label key '{key}' uses the reserved prefix '{_RESERVED}/'")
        if not isinstance(value, str) or not is_value(value):
            problems.append(f"label value of key '{key}' is not correctly formatted")
    return problems


def parse_selector(text: str, field: str = "label_selector") -> Selector:
    """Parse a label selector, for example ``env in (a,b),!draft``; the error names the field."""
    if not text.strip():
        return Selector(())
    return Selector(tuple(_requirement(part.strip(), field) for part in _split(text)))


def _split(text: str) -> list[str]:
    """Split at commas outside of parentheses, in linear time."""
    parts, end, inside = [], len(text), False
    for place in range(len(text) - 1, -1, -1):
        if text[place] in "()":
            inside = text[place] == ")"
        elif text[place] == "," and not inside:
            parts.append(text[place + 1 : end])
            end = place
    return [*reversed([*parts, text[:end]])]


def _requirement(part: str, field: str) -> Requirement:
    requirement = _read(part)
    if requirement is None or not is_key(requirement.key) or not all(map(is_value, requirement.values)):
        raise InvalidInput({field: [f"'{part}' is not correctly formatted"]})
    return requirement


def _read(part: str) -> Requirement | None:
    if match := _SET.fullmatch(part):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], match["operator"], values)
    if part.startswith("!") and "=" not in part:
        return Requirement(part[1:].strip(), "absent")
    if match := _EQUALITY.fullmatch(part):
        return Requirement(
            match["key"], "notin" if match["operator"] == "!=" else "in", frozenset([match["value"]])
        )
    return Requirement(part, "exists") if part else None
