"""What actions do, by name: the state keeps the name, so that a restart finds the work again.

An effect is given the whole cloud and its action. The table knows neither: both know the table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Effect = Callable[[Any, Any], Awaitable[None]]
F = TypeVar("F", bound=Callable[..., Any])

EFFECTS: dict[str, Effect] = {}
UNDOS: dict[str, Effect] = {}


def effect(name: str) -> Callable[[F], F]:
    """The decorated coroutine is what an action with this effect does; it must bear being run twice."""

    def register(function: F) -> F:
        EFFECTS[name] = function
        return function

    return register


def undo(name: str) -> Callable[[F], F]:
    """The decorated coroutine tidies up after an action with this effect has failed."""

    def register(function: F) -> F:
        UNDOS[name] = function
        return function

    return register
