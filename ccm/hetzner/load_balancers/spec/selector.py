"""Parses Kubernetes' label selectors: ``pool=edge, tier in (a, b), !spot, generation > 4``.

Accepts the same texts as the official CCM with Kubernetes' own parser
(https://pkg.go.dev/k8s.io/apimachinery/pkg/labels#Parse), even ``a=`` for an empty value and ``in(a,,b)``.
Additionally limits the number of conditions, because thousands of Nodes must be checked.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MAX_CONDITIONS = 32
_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+)[ \t\r\n]*")
_SPECIAL = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})
_END = ""
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def _whole(text: str | None) -> int | None:
    """Parse a number of 64 bits in a label; None = not a number."""
    number = int(text) if text and text.isascii() and text.isdigit() else None
    return number if number is not None and number < 2**63 else None


def _beyond(value: str | None, values: frozenset[str], *, sign: int) -> bool:
    number, bound = _whole(value), _whole(next(iter(values)))
    return number is not None and bound is not None and sign * (number - bound) > 0


_TESTS: Mapping[str, Callable[[str | None, frozenset[str]], bool]] = {
    "in": lambda value, values: value in values,
    "notin": lambda value, values: value not in values,
    "exists": lambda value, _: value is not None,
    "!": lambda value, _: value is None,
    ">": lambda value, values: _beyond(value, values, sign=1),
    "<": lambda value, values: _beyond(value, values, sign=-1),
}
_SAME_AS = {"=": "in", "==": "in", "!=": "notin"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions that must all be true. Without conditions, the selector matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet all conditions."""
        return all(
            _TESTS[requirement.operator](labels.get(requirement.key), requirement.values)
            for requirement in self.requirements
        )


def parse(text: str) -> Selector:
    """Parse a selector. Raises ValueError with the invalid part."""
    tokens = _Tokens(text)
    found: dict[Requirement, None] = {}
    if tokens.next == _END:
        return Selector()
    while True:
        found[_requirement(tokens)] = None
        if len(found) > MAX_CONDITIONS:
            raise ValueError(f"the selector has more than {MAX_CONDITIONS} conditions")
        if tokens.next == _END:
            return Selector(tuple(found))
        tokens.expect(",")


class _Tokens:
    """The remaining tokens of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self.next = ""
        self.take()

    def take(self) -> str:
        """Consume and return the next token; empty at the end."""
        taken = self.next
        match = _TOKEN.match(self._text, self._position)
        self._position = match.end() if match else len(self._text)
        self.next = match[1] if match else _END
        return taken

    def expect(self, token: str) -> None:
        """Consume this token, or raise ValueError."""
        if self.next != token:
            raise ValueError(f"{token!r} is expected, not {self.next!r}")
        self.take()

    def word(self, allowed: Callable[[str], bool], what: str) -> str:
        """Consume a key or a value."""
        if self.next in _SPECIAL or self.next == _END or not allowed(self.next):
            raise ValueError(f"{self.next!r} isn't a valid label {what}")
        return self.take()


def _requirement(tokens: _Tokens) -> Requirement:
    absent = tokens.next == "!"
    if absent:
        tokens.take()
    key = tokens.word(_is_key, "key")
    if absent:
        return Requirement(key, "!")
    if tokens.next in {_END, ","}:
        return Requirement(key, "exists")
    operator = tokens.take()
    if operator in {"in", "notin"}:
        return Requirement(key, operator, _values(tokens))
    if operator not in {*_SAME_AS, ">", "<"}:
        raise ValueError(f"{operator!r} isn't an operator of a label selector")
    value = "" if tokens.next in {_END, ","} else tokens.word(_is_value, "value")
    if operator in {">", "<"} and _whole(value) is None:
        raise ValueError(f"{value!r} isn't a whole number")
    return Requirement(key, _SAME_AS.get(operator, operator), frozenset({value}))


def _values(tokens: _Tokens) -> frozenset[str]:
    """Parse values in parentheses. Nothing between two commas is an empty value."""
    tokens.expect("(")
    if tokens.next == ")":
        raise ValueError("the parentheses are empty")
    found: set[str] = set()
    while True:
        found.add("" if tokens.next in {",", ")"} else tokens.word(_is_value, "value"))
        if tokens.next == ")":
            tokens.take()
            return frozenset(found)
        tokens.expect(",")


def _is_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or not _DOMAIN.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def _is_value(text: str) -> bool:
    return _VALUE.fullmatch(text) is not None
