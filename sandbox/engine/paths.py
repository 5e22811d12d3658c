"""Property paths as in ``ignore_changes``: ``a.b[0]["c.d"]``, ``*`` matches every key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sandbox.engine.values import is_secret, plain

_SEGMENT = re.compile(r"""\.?(?:\["((?:[^"\\]|\\.)*)"\]|\[(\d+|\*)\]|([^.\[\]"]+))""")
_MISSING = object()

Segment = str | int


def parse(path: str) -> tuple[Segment, ...]:
    """Split a path into keys and indexes.

    Raises:
        ValueError: The text is no path.
    """
    segments: list[Segment] = []
    position = 0
    while position < len(path):
        match = _SEGMENT.match(path, position)
        if match is None:
            raise ValueError(
                f"'{path}' is not a property path (wanted: name, name.key, name[0], name[\"key\"])"
            )
        quoted, index, name = match.groups()
        if quoted is not None:
            segments.append(re.sub(r"\\(.)", r"\1", quoted))
        elif index is not None:
            segments.append(index if index == "*" else int(index))
        else:
            segments.append(name)
        position = match.end()
    if not segments:
        raise ValueError("an empty text is no property path")
    return tuple(segments)


def _open(tree: Any) -> Any:
    return tree["value"] if is_secret(tree) else tree


def _get(tree: Any, path: Sequence[Segment]) -> Any:
    for segment in path:
        inner = _open(tree)
        if isinstance(inner, dict):
            tree = inner.get(segment, _MISSING)
        else:
            listed = inner if isinstance(inner, list) and isinstance(segment, int) else []
            tree = listed[int(segment)] if listed and int(segment) < len(listed) else _MISSING
        if tree is _MISSING:
            return _MISSING
    return tree


def differ(old: Any, new: Any, path: Sequence[Segment]) -> bool:
    """Tell whether two trees differ at a path, or below it; secret marks don't count."""
    if not path:
        return plain(old if old is not _MISSING else None) != plain(new if new is not _MISSING else None)
    before, after = _open(old), _open(new)
    keys = {*_children(before), *_children(after)} if path[0] == "*" else {path[0]}
    return any(differ(_get(before, [key]), _get(after, [key]), path[1:]) for key in keys)


def _children(tree: Any) -> list[Segment]:
    if isinstance(tree, dict):
        return [key for key in tree if not key.startswith("__")]
    return list(range(len(tree))) if isinstance(tree, list) else []
