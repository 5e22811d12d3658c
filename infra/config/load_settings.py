"""Reads the stack's configuration: the settings, and all problems that can be found without a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..lib.errors import Problem
from .config_values import nearest
from .cross_field_validation import problems_between
from .setting_types import NAMESPACE, key_of, types_of
from .settings import Settings


def parse_settings(raw: Mapping[str, Any]) -> tuple[Settings, list[Problem]]:
    """Reads the configuration as far as it can be read.

    Args:
        raw: Full keys (``namespace:key``) and values, as Pulumi passes them to a program: strings, structured
            values as JSON. Keys of other namespaces are ignored.

    Returns:
        The settings, with defaults for values that could not be read, and all problems.
    """
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, type_ in types_of(Settings).items():
        values[name], found = type_.read(raw.get(key_of(name)), key_of(name))
        problems += found
    settings = Settings(**values)
    unread = {problem.key.partition("[")[0] for problem in problems}
    return settings, [*problems, *_unknown_keys(raw), *problems_between(settings, unread)]


def _unknown_keys(raw: Mapping[str, Any]) -> list[Problem]:
    known = {key_of(name).partition(":")[2] for name in types_of(Settings)}
    problems = []
    for key in sorted(raw):
        namespace, _, name = key.partition(":")
        if namespace != NAMESPACE or name in known:
            continue
        hint = nearest(name, known, f"{NAMESPACE}:") or f"known are {', '.join(sorted(known))}"
        problems.append(Problem(key, raw[key], f"there is no such key; {hint}"))
    return problems
