"""Decodes structured settings as Pulumi passes them to a program."""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..lib.errors import Problem

Parts = Mapping[str, tuple[Callable[[Any], Any], str]]
"""Maps the name of each part of a setting to its parser and to a text that describes the allowed values."""
WORD = "give a name of at most 63 letters, digits, dots and hyphens"


def decoded(value: Any) -> Any:
    """The value of a setting, given as JSON or decoded; None if it is a string that isn't JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None


def as_typed(value: Any) -> Any:
    """The string that a user typed, where ``pulumi config set --path`` made a boolean or an integer of it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


def parts_of(
    values: Mapping[Any, Any], key: str, parts: Parts, required: Collection[str] = ()
) -> tuple[dict[str, Any], list[Problem]]:
    """The valid parts of a setting by name, and the problems of the others (ValueError or TypeError)."""
    unknown = (name for name in values if name not in parts)
    problems = [Problem(f"{key}.{name}", values[name], no_such_key(name, parts)) for name in unknown]
    parsed: dict[str, Any] = {}
    for name, (parse, allowed) in parts.items():
        value = values.get(name)
        if value is None:
            problems += [Problem(f"{key}.{name}", None, allowed)] * (name in required)
            continue
        try:
            parsed[name] = parse(value)
        except (ValueError, TypeError) as error:
            problems.append(Problem(f"{key}.{name}", value, str(error) or allowed))
    return parsed, problems


def no_such_key(name: Any, known: Iterable[str]) -> str:
    """The text about an unknown key."""
    return f"there is no such key; {nearest(name, known) or 'allowed: ' + ', '.join(sorted(known))}"


def nearest(name: Any, known: Iterable[str], prefix: str = "") -> str:
    """A question with the known name that is similar to a wrong one; empty if none is."""
    near = difflib.get_close_matches(str(name), [*known], n=1)
    return f"did you mean {prefix}{near[0]}?" if near else ""


def word(value: Any) -> str:
    """A name; a ValueError means that it is something else."""
    if not isinstance(value, str) or not re.fullmatch(r"[\w.-]{1,63}", value, re.ASCII):
        raise ValueError
    return value
