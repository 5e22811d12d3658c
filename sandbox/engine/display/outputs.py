"""A stack's outputs as text, and what has changed in them, in the form of the Pulumi CLI. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.engine.properties.values import UNKNOWN, is_secret, transform

_INDENT = "    "
_ABSENT = object()


class _Word(str):
    """Stands for a value that is not shown, without quotes."""

    __slots__ = ()


def output_lines(before: Mapping[str, Any], after: Mapping[str, Any], *, show_secrets: bool) -> list[str]:
    """Outputs one below the other; marked where they are new, changed or gone.

    Args:
        before: Outputs before the run, empty where there were none: then nothing is marked as new.
        after: Outputs after it, empty after a destroy.
        show_secrets: Show what is in secrets.
    """
    old, new = hide(before, show_secrets=show_secrets), hide(after, show_secrets=show_secrets)
    return list(_members(old or new, new, 1))


def hide(value: Any, *, show_secrets: bool) -> Any:
    """A tree without marks of secrets, and a word in place of what is hidden or not known."""

    def shown(part: Any) -> Any:
        if is_secret(part):
            return hide(part["value"], show_secrets=True) if show_secrets else _Word("[secret]")
        return _Word("[unknown]") if part == UNKNOWN else part

    return transform(value, shown)


def _members(old: Any, new: Any, depth: int) -> Iterator[str]:
    """The members of two mappings or two lists, side by side."""
    before, after = _labelled(old), _labelled(new)
    labels = sorted({**before, **after}) if isinstance(new, dict) else [*({**before, **after})]
    width = max(map(len, labels), default=0)
    for label in labels:
        yield from _entry(f"{label:<{width}}", before.get(label, _ABSENT), after.get(label, _ABSENT), depth)


def _labelled(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {f"[{number}]": part for number, part in enumerate(value)}


def _entry(label: str, old: Any, new: Any, depth: int) -> Iterator[str]:
    plain = _INDENT * depth
    if old is _ABSENT:
        yield from _marked(plain, "+", _block(label, new))
    elif new is _ABSENT:
        yield from _marked(plain, "-", _block(label, old))
    elif old == new:
        yield from (plain + line for line in _block(label, new))
    elif _is_open(old) and type(old) is type(new) and new:
        yield f"{plain[:-2]}~ {label}: {_brackets(new)[0]}"
        yield from _members(old, new, depth + 1)
        yield plain + _brackets(new)[1]
    else:
        yield f"{plain[:-2]}~ {label}: {_inline(old)} => {_inline(new)}"


def _marked(plain: str, mark: str, lines: list[str]) -> Iterator[str]:
    """Every line with a mark, except a closing bracket."""
    *body, last = lines
    yield from (f"{plain[:-2]}{mark} {line}" for line in (body or lines))
    if body:
        yield plain + last


def _block(label: str, value: Any) -> list[str]:
    if not _is_open(value):
        return [f"{label}: {_inline(value)}"]
    first, last = _brackets(value)
    inside = [line.removeprefix(_INDENT) for line in _members(value, value, 1)]
    return [f"{label}: {first}", *(_INDENT + line for line in inside), last]


def _is_open(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _brackets(value: Any) -> str:
    return "{}" if isinstance(value, dict) else "[]"


def _inline(value: Any) -> str:
    return str(value) if isinstance(value, _Word) else json.dumps(value, ensure_ascii=False)


def format_value(value: Any, *, show_secrets: bool) -> str:
    """An output as text; secrets are hidden unless asked for."""
    shown = hide(value, show_secrets=show_secrets)
    if isinstance(shown, dict | list):
        return json.dumps(shown, indent=4).replace("\n", "\n    ")
    return _inline(shown)
