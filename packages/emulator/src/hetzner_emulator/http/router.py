"""Finds the operations for a path."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hetzner_emulator.api.registry import Operation


@dataclass(frozen=True)
class Match:
    """The operations of a path by method, and the path's parameters."""

    operations: Mapping[str, Operation]
    parameters: Mapping[str, str]


class Router:
    """Patterns of paths by first segment and number of segments; literal segments have precedence."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        paths: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            paths.setdefault(operation.path.strip("/"), {})[operation.method] = operation
        self._patterns: dict[tuple[str, int], list[tuple[re.Pattern[str], dict[str, Operation]]]] = {}
        for path in sorted(paths, key=lambda path: [part.startswith("{") for part in path.split("/")]):
            pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))
            self._patterns.setdefault(_key(path), []).append((pattern, paths[path]))

    def match(self, path: str) -> Match | None:
        """The operations at this path, or None."""
        path = path.strip("/")
        for pattern, operations in self._patterns.get(_key(path), ()):
            if found := pattern.fullmatch(path):
                return Match(operations, found.groupdict())
        return None


def _key(path: str) -> tuple[str, int]:
    return path.partition("/")[0], path.count("/")
