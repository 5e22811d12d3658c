"""Sends changes to a resource that other work may hold for a moment, and waits until they are done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ccm.hetzner.api import Priority, convert
from ccm.hetzner.api.errors import Locked, NotFound
from ccm.hetzner.api.wire import Action
from ccm.hetzner.load_balancers.views import Inventory

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between tries while another action holds the lock

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


async def delete(inventory: Inventory, path: str) -> bool:
    """Delete something, and wait until it is gone; False = it was gone already.

    The API answers with nothing, or with an action.

    Raises:
        ApiError: It is still there.
    """
    api = inventory.api
    try:
        answer = await patiently(
            lambda: api.request("DELETE", path, priority=Priority.LOAD_BALANCERS), inventory.sleep
        )
    except NotFound:
        return False
    if answer.get("action") is not None:
        await api.wait(convert(answer["action"], Action, f"DELETE {path}"))
    return True


async def patiently(send: Callable[[], Awaitable[T]], sleep: Sleep) -> T:
    """Send a change; while something else works on the resource, wait and try again.

    Raises:
        Locked: It took too long.
        ApiError: The change failed.
    """
    for pause in PAUSES:
        try:
            return await send()
        except Locked:
            await sleep(pause)
    return await send()
