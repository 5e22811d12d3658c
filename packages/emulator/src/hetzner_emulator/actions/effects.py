"""Effects of actions by name; the state has the name, so that a restart can resume the action.

The arguments of an effect are the cloud, the first resource of the action, and the action.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hetzner_emulator.state.records import Record

R = TypeVar("R", bound=Record)
Effect = Callable[[Any, Any], Awaitable[None]]
EffectOn = Callable[[Any, R, Any], Awaitable[None]]

EFFECTS: dict[str, Effect] = {}
UNDOS: dict[str, Effect] = {}


def effect(name: str, kind: type[R]) -> Callable[[EffectOn[R]], EffectOn[R]]:
    """Register the effect of actions, which must be idempotent; the action fails if the object is deleted."""

    def register(function: EffectOn[R]) -> EffectOn[R]:
        async def run(cloud: Any, action: Any) -> None:
            await function(cloud, cloud.store.get(kind, action.project, action.resources[0].id), action)

        EFFECTS[name] = run
        return function

    return register


def removal(name: str, kind: type[R]) -> Callable[[EffectOn[R]], EffectOn[R]]:
    """Register an effect that deletes the object; the action succeeds if it is deleted already."""
    return _if_there(EFFECTS, name, kind)


def undo(name: str, kind: type[R]) -> Callable[[EffectOn[R]], EffectOn[R]]:
    """Register the cleanup after a failed action with this effect; skipped if the object is deleted."""
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
