"""Finds the operation for a method and a path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hetzner_emulator.api.registry import Operation


@dataclass
class _Place:
    """A point in the tree of path segments; a parameter's branch is called ``{}``."""

    branches: dict[str, _Place] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Match:
    """The operations of a path by method, and the path's parameters."""

    operations: Mapping[str, Operation]
    parameters: Mapping[str, str]


class Router:
    """A tree of path segments; a literal segment wins over a parameter."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = _Place()
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        place, names = self._root, []
        for segment in operation.path.strip("/").split("/"):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                segment = "{}"  # noqa: PLW2901  the branch's name replaces the parameter's
            place = place.branches.setdefault(segment, _Place())
        place.operations[operation.method] = operation
        place.names = tuple(names)

    def match(self, path: str) -> Match | None:
        """What is at this path, or None."""
        found = self._walk(self._root, path.strip("/").split("/"), ())
        if found is None:
            return None
        place, values = found
        return Match(place.operations, dict(zip(place.names, values, strict=True)))

    def _walk(
        self, place: _Place, segments: list[str], values: tuple[str, ...]
    ) -> tuple[_Place, tuple[str, ...]] | None:
        if not segments:
            return (place, values) if place.operations else None
        head, *rest = segments
        if head in place.branches and (found := self._walk(place.branches[head], rest, values)):
            return found
        if "{}" in place.branches and head:
            return self._walk(place.branches["{}"], rest, (*values, head))
        return None
