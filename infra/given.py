"""A setting with a structure, as Pulumi hands it to a program."""

from __future__ import annotations

import json
from typing import Any


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
