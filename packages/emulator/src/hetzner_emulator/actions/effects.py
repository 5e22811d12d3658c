"""What actions do, by name: the state keeps the name, so that a restart finds the work again.

An effect is given the whole cloud, the object that its action concerns first, and the action. The table knows
neither cloud nor actions: both know the table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hetzner_emulator.state.records import Record

R = TypeVar("R", bound=Record)
Effect = Callable[[Any, Any], Awaitable[None]]
EffectOn = Callable[[Any, R, Any], Awaitable[None]]

EFFECTS: dict[str, Effect] = {}
UNDOS: dict[str, Effect] = {}


def effect(name: str, kind: type[R]) -> Callable[[EffectOn[R]], EffectOn[R]]:
    """The decorated coroutine is what an action with this effect does; it must bear being run twice.

    The action ends with an error where its object is gone.
    """

    def register(function: EffectOn[R]) -> EffectOn[R]:
        async def run(cloud: Any, action: Any) -> None:
            await function(cloud, cloud.store.get(kind, action.project, action.resources[0].id), action)

        EFFECTS[name] = run
        return function

    return register


def general_effect(name: str) -> Callable[[Effect], Effect]:
    """The same for an effect that looks at more than its object: it runs even where that is gone."""

    def register(function: Effect) -> Effect:
        EFFECTS[name] = function
        return function

    return register


def removal(name: str, kind: type[R]) -> Callable[[EffectOn[R]], EffectOn[R]]:
    """The same for an effect that removes the object: where it is gone already, nothing is left to do."""
    return _if_there(EFFECTS, name, kind)


def undo(name: str, kind: type[R]) -> Callable[[EffectOn[R]], EffectOn[R]]:
    """The decorated coroutine tidies up after an action with this effect failed, if its object is there."""
    return _if_there(UNDOS, name, kind)


def _if_there(table: dict[str, Effect], name: str, kind: type[R]) -> Callable[[EffectOn[R]], EffectOn[R]]:
    def register(function: EffectOn[R]) -> EffectOn[R]:
        async def run(cloud: Any, action: Any) -> None:
            entry = cloud.store.find(kind, action.resources[0].id)
            if entry is not None:
                await function(cloud, entry, action)

        table[name] = run
        return function

    return register
