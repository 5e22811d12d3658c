"""Finds the operation for a method and a path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hetzner_emulator.api.registry import Operation


@dataclass
class _Node:
    """A node in the tree of path segments; the branch of a parameter is ``{}``."""

    branches: dict[str, _Node] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Match:
    """The operations of a path by method, and the path's parameters."""

    operations: Mapping[str, Operation]
    parameters: Mapping[str, str]


class Router:
    """A tree of path segments; a literal segment has precedence over a parameter."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = _Node()
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        node, names = self._root, []
        for segment in operation.path.strip("/").split("/"):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                segment = "{}"  # noqa: PLW2901  all parameters share a branch
            node = node.branches.setdefault(segment, _Node())
        node.operations[operation.method] = operation
        node.names = tuple(names)

    def match(self, path: str) -> Match | None:
        """The operations at this path, or None."""
        found = self._walk(self._root, path.strip("/").split("/"), ())
        if found is None:
            return None
        node, values = found
        return Match(node.operations, dict(zip(node.names, values, strict=True)))

    def _walk(
        self, node: _Node, segments: list[str], values: tuple[str, ...]
    ) -> tuple[_Node, tuple[str, ...]] | None:
        if not segments:
            return (node, values) if node.operations else None
        head, *rest = segments
        if head in node.branches and (found := self._walk(node.branches[head], rest, values)):
            return found
        if "{}" in node.branches and head:
            return self._walk(node.branches["{}"], rest, (*values, head))
        return None
