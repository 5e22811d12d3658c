"""What resources tell each other by the name of an event.

A reaction is given the whole cloud and what the event is about. The table knows neither, so that the cloud
itself can announce its start and its end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Reaction = Callable[[Any, Any], Awaitable[None]]
F = TypeVar("F", bound=Callable[..., Any])

REACTIONS: dict[str, list[Reaction]] = {}


def reaction(event: str) -> Callable[[F], F]:
    """The decorated coroutine runs when another resource announces the event."""

    def register(function: F) -> F:
        REACTIONS.setdefault(event, []).append(function)
        return function

    return register


async def announce(event: str, cloud: Any, subject: Any) -> None:
    """Run the reactions to an event, one after the other."""
    for function in REACTIONS.get(event, []):
        await function(cloud, subject)
