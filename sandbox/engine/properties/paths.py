"""Property paths as in ``ignore_changes``: ``a.b[0]["c.d"]``, ``*`` matches every key."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

from sandbox.engine.errors import UsageError
from sandbox.engine.properties.values import is_secret, plain, secret

_SEGMENT = re.compile(r"""\.?(?:\["((?:[^"\\]|\\.)*)"\]|\[(\d+|\*)\]|([^.\[\]"]+))""")
_MISSING = object()

Segment = str | int


def parse(path: str) -> tuple[Segment, ...]:
    """Split a path into keys and indexes.

    Raises:
        UsageError: The text is no path.
    """
    segments: list[Segment] = []
    position = 0
    while position < len(path):
        match = _SEGMENT.match(path, position)
        if match is None:
            raise UsageError(
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
        raise UsageError("an empty text is no property path")
    return tuple(segments)


def get(tree: Any, path: Sequence[Segment]) -> Any:
    """The value at a path without wildcards, None where there is none."""
    found = _get(tree, path)
    return None if found is _MISSING else found


def ignore(old: Any, new: Any, path: Sequence[Segment]) -> Any:
    """A copy of ``new`` with what ``old`` has at the path; what ``old`` lacks is removed there.

    A value that was secret, or part of a secret, stays one.
    """
    return _ignore(old, copy.deepcopy(new), path, hidden=False)


def _open(tree: Any) -> Any:
    return tree["value"] if is_secret(tree) else tree


def _get(tree: Any, path: Sequence[Segment]) -> Any:
    for segment in path:
        inner = _open(tree)
        listed = isinstance(inner, list) and isinstance(segment, int) and segment < len(inner)
        if listed or (isinstance(inner, dict) and segment in inner):
            tree = inner[segment]
        else:
            return _MISSING
    return tree


def _keys(old: Any, new: Any, segment: Segment) -> list[Segment]:
    if segment != "*":
        return [segment]
    if isinstance(old, list) and isinstance(new, list):
        return list(range(min(len(old), len(new))))
    if isinstance(old, dict) and isinstance(new, dict):
        return list(dict.fromkeys([*old, *new]))
    return []


def _ignore(old: Any, new: Any, path: Sequence[Segment], *, hidden: bool) -> Any:
    """As ``ignore``, in place; ``hidden`` says that the old value is in a secret and the new one is not."""
    if not path:
        return old
    hidden = not is_secret(new) and (hidden or is_secret(old))
    before, after = _open(old), _open(new)
    for key in _keys(before, after, path[0]):
        was = _get(before, [key])
        now = _get(after, [key])
        if len(path) == 1:
            kept = secret(was) if hidden and was is not _MISSING else was
        elif now is _MISSING or (was is _MISSING and path[0] == "*"):
            continue
        else:
            kept = _ignore(None if was is _MISSING else was, now, path[1:], hidden=hidden)
        _put(after, key, kept)
    return new


def _put(tree: Any, key: Segment, value: Any) -> None:
    if isinstance(tree, dict):
        if value is _MISSING:
            tree.pop(key, None)
        else:
            tree[key] = value
    elif isinstance(tree, list) and isinstance(key, int) and key < len(tree) and value is not _MISSING:
        tree[key] = value


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
