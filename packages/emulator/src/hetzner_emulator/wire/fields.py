"""Decodes the fields of a body and collects all errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any, TypeVar

from hetzner_emulator.errors import InvalidInput
from hetzner_emulator.wire.labels import label_problems

T = TypeVar("T")
MISSING = "Missing data for required field."


class Fields:
    """The fields of a JSON object.

    The methods return the value, or ``default`` if the field is missing or null. They collect errors, which
    :meth:`check` raises.
    """

    def __init__(self, body: Any, prefix: str = "", problems: dict[str, list[str]] | None = None) -> None:
        self.body: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
        self._prefix = prefix
        self.problems: dict[str, list[str]] = {} if problems is None else problems
        if not isinstance(body, Mapping):
            self.wrong("", "must be an object")

    def __contains__(self, name: str) -> bool:
        return self.body.get(name) is not None

    def wrong(self, name: str, message: str) -> None:
        """Add an error of a field."""
        self.problems.setdefault(f"{self._prefix}{name}".rstrip(".") or "body", []).append(message)

    def only(self, *names: str) -> None:
        """Add an error for every other field: Hetzner ignores unknown fields, our admin calls don't."""
        for name in self.body.keys() - set(names):
            self.wrong(name, f"unknown; allowed: {', '.join(names) or 'none'}")

    def check(self) -> None:
        """Raise the errors, if there are some, as InvalidInput."""
        if self.problems:
            raise InvalidInput(self.problems)

    def read(
        self, name: str, kind: type[T] | tuple[type[T], ...], default: T | None, *, required: bool
    ) -> Any:
        """The value of a field of one of some types."""
        value = self.body.get(name)
        if value is None:
            if required:
                self.wrong(name, MISSING)
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            self.wrong(name, "has a wrong type")
            return default
        return value

    def text(
        self, name: str, default: str = "", *, required: bool = False, longest: int = 255, shortest: int = 0
    ) -> str:
        """A string with limits of its length."""
        value: str = self.read(name, str, default, required=required)
        if len(value) > longest:
            self.wrong(name, "is too long")
        if name in self and len(value) < max(shortest, int(required)):
            self.wrong(name, "is too short")
        return value

    def name(self, longest: int, problem_of: Callable[[str], str]) -> str:
        """The required field ``name``; ``problem_of`` describes what is invalid in one."""
        name = self.text("name", required=True, longest=longest)
        if name and (problem := problem_of(name)):
            self.wrong("name", problem)
        return name

    def reference(self, name: str, *, required: bool = False) -> str:
        """A name or ID; Hetzner's clients can send IDs as numbers."""
        value = self.body.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.text(name, required=required)

    def choice(
        self, name: str, allowed: Collection[str], default: str = "", *, required: bool = False
    ) -> str:
        """One of some strings."""
        value: str = self.read(name, str, default, required=required)
        if name in self and value not in allowed:
            self.wrong(name, f"must be one of: {', '.join(sorted(allowed))}")
        return value

    def number(
        self, name: str, default: int = 0, *, required: bool = False, least: int = 0, most: int = 2**53 - 1
    ) -> int:
        """An integer in a range."""
        value: int = self.read(name, int, default, required=required)
        if name in self and not least <= value <= most:
            self.wrong(name, f"must be between {least} and {most}")
        return value

    def flag(self, name: str, default: bool = False, *, required: bool = False) -> bool:  # noqa: FBT001, FBT002
        """A boolean."""
        value: bool = self.read(name, bool, default, required=required)
        return value

    def items(self, name: str, *, required: bool = False, most: int = 10_000) -> list[Any]:
        """A list; its items are not checked."""
        value: list[Any] = self.read(name, list, [], required=required)
        if len(value) > most:
            self.wrong(name, f"can't have more than {most} items")
        return value

    def numbers(self, name: str, *, distinct: bool = False) -> list[int]:
        """A list of IDs, optionally without duplicates."""
        values = self.items(name)
        if any(not isinstance(value, int) or isinstance(value, bool) for value in values):
            self.wrong(name, "has a wrong type")
            return []
        if distinct:
            self.check_distinct(name, values)
        return values

    def check_distinct(self, name: str, values: Collection[int] | Collection[str]) -> None:
        """Add an error if a list has duplicates."""
        if len(set(values)) < len(values):
            self.wrong(name, "has duplicates")

    def texts(self, name: str, *, required: bool = False, longest: int = 255) -> list[str]:
        """A list of strings with a maximum length."""
        values = self.items(name, required=required)
        if any(not isinstance(value, str) for value in values):
            self.wrong(name, "has a wrong type")
            return []
        if any(len(value) > longest for value in values):
            self.wrong(name, "is too long")
            return []
        return values

    def object(self, name: str, *, required: bool = False) -> Fields:
        """A nested object, which shares the errors."""
        value = self.read(name, dict, {}, required=required)
        return Fields(value, f"{self._prefix}{name}.", self.problems)

    def objects(self, name: str, *, required: bool = False, most: int = 10_000) -> list[Fields]:
        """A list of objects, which share the errors."""
        values = self.items(name, required=required, most=most)
        return [Fields(value, f"{self._prefix}{name}.{i}.", self.problems) for i, value in enumerate(values)]

    def labels(self) -> dict[str, str]:
        """The field ``labels``."""
        value: dict[str, str] = self.read("labels", dict, {}, required=False)
        for problem in label_problems(value):
            self.wrong("labels", problem)
        return dict(value)

    def address(self, name: str, *, required: bool = False) -> IPv4Address | None:
        """An IPv4 address, or None."""
        value = self.text(name, required=required)
        try:
            return IPv4Address(value) if value else None
        except ValueError:
            self.wrong(name, f"'{value}' is not a valid IPv4 address")
            return None

    def network(self, name: str, *, required: bool = False) -> IPv4Network | None:
        """An IPv4 range in CIDR notation without host bits, or None."""
        value = self.text(name, required=required)
        try:
            return IPv4Network(value) if value else None
        except ValueError:
            self.wrong(name, f"'{value}' is not a valid IPv4 range in CIDR notation")
            return None
