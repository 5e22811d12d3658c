"""Kubernetes' label selectors as text: ``pool=edge, tier in (a, b), !spot``. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_KEY = r"(?P<key>(?:[A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)"
_SET = re.compile(_KEY + r"\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL = re.compile(_KEY + r"\s*(?P<operator>==|=|!=)\s*(?P<values>[-A-Za-z0-9_.]*)")
_EXISTS = re.compile(r"(?P<operator>!?)\s*" + _KEY)

_TESTS: Mapping[str, Callable[[str | None, frozenset[str]], bool]] = {
    "in": lambda value, values: value in values,
    "=": lambda value, values: value in values,
    "==": lambda value, values: value in values,
    "notin": lambda value, values: value not in values,
    "!=": lambda value, values: value not in values,
    "": lambda value, _: value is not None,
    "!": lambda value, _: value is None,
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions that must all hold; none of them selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet all conditions."""
        return all(_TESTS[one.operator](labels.get(one.key), one.values) for one in self.requirements)


def parse(text: str) -> Selector:
    """Read a selector.

    Raises:
        ValueError: it is none; says which part.
    """
    parts = [part.strip() for part in _split(text)] if text.strip() else []
    return Selector(tuple(_requirement(part) for part in dict.fromkeys(parts)))


def _split(text: str) -> list[str]:
    """What is between commas that are not in parentheses."""
    parts: list[str] = []
    start, inside = 0, False
    for position, character in enumerate(text):
        if character in "()":
            inside = character == "("
        elif character == "," and not inside:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def _requirement(part: str) -> Requirement:
    for pattern in (_SET, _EQUAL, _EXISTS):
        match = pattern.fullmatch(part)
        if match:
            fields = match.groupdict()
            values = fields.get("values")
            several = [] if values is None else [one.strip() for one in values.split(",")]
            return Requirement(fields["key"], fields["operator"], frozenset(several))
    raise ValueError(f"{part!r} is no condition on a label")
