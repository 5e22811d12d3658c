"""A setting with a structure, as Pulumi hands it to a program."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..lib.errors import Problem

Parts = Mapping[str, tuple[Callable[[Any], Any], str]]
"""By the name of each part: what reads it, and what is said of a wrong one."""
WORD = "give a name of at most 63 letters, digits, dots and hyphens"


def decoded(value: Any) -> Any:
    """What a setting says; None where it is a text that is no JSON.

    Args:
        value: JSON as a text, or what it says.
    """
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None


def as_typed(value: Any) -> Any:
    """What was typed: ``pulumi config set --path`` makes ``true`` a truth value, and ``1`` a number.

    Args:
        value: A part of a setting that is a text; what is neither of these stays as it is.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


def parts_of(
    given: Mapping[Any, Any], key: str, parts: Parts, needed: Collection[str] = ()
) -> tuple[dict[str, Any], list[Problem]]:
    """Reads the parts of a setting.

    Args:
        given: The setting, or one item of it.
        key: Of that, for problems.
        parts: The parts that there are. What reads one raises a ValueError or a TypeError, and may say why.
        needed: Names of those that have to be given.

    Returns:
        By name, the parts that could be read, and a problem for each other one.
    """
    unknown = (name for name in given if name not in parts)
    problems = [Problem(f"{key}.{name}", given[name], no_such_key(name, parts)) for name in unknown]
    values: dict[str, Any] = {}
    for name, (parse, allowed) in parts.items():
        value = given.get(name)
        if value is None:
            problems += [Problem(f"{key}.{name}", None, allowed)] * (name in needed)
            continue
        try:
            values[name] = parse(value)
        except (ValueError, TypeError) as error:
            problems.append(Problem(f"{key}.{name}", value, str(error) or allowed))
    return values, problems


def no_such_key(name: Any, known: Iterable[str]) -> str:
    """What is allowed in place of a key that there is not."""
    return f"there is no such key; {nearest(name, known) or 'known are ' + ', '.join(sorted(known))}"


def nearest(name: Any, known: Iterable[str], prefix: str = "") -> str:
    """Asks for the known name that a wrong one resembles; empty: there is none.

    Args:
        name: The wrong one.
        known: Those that there are.
        prefix: Begins the name in the question.
    """
    near = difflib.get_close_matches(str(name), [*known], n=1)
    return f"did you mean {prefix}{near[0]}?" if near else ""


def word(value: Any) -> str:
    """A name.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, str) or not re.fullmatch(r"[\w.-]{1,63}", value, re.ASCII):
        raise ValueError
    return value
