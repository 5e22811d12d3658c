"""Events between resources; the arguments of a reaction are the cloud and the subject of the event."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Reaction = Callable[[Any, Any], Awaitable[None]]
F = TypeVar("F", bound=Callable[..., Any])

REACTIONS: dict[str, list[Reaction]] = {}


def reaction(event: str) -> Callable[[F], F]:
    """Register the decorated coroutine for an event."""

    def register(function: F) -> F:
        REACTIONS.setdefault(event, []).append(function)
        return function

    return register


async def announce(event: str, cloud: Any, subject: Any) -> None:
    """Run the reactions to an event in the order of their registration."""
    for function in REACTIONS.get(event, []):
        await function(cloud, subject)
