"""Sends changes and waits until they are done."""

from __future__ import annotations

from ccm.hetzner.api import Priority, convert
from ccm.hetzner.api.errors import NotFound
from ccm.hetzner.api.wire import Action
from ccm.hetzner.load_balancers.run.outcome import Work


async def delete(work: Work, path: str) -> bool:
    """Delete something, and wait until it is gone; False = it was gone already.

    The API answers with nothing, or with an action.

    Raises:
        ApiError: It is still there.
    """
    api, priority = work.views.inventory.api, Priority.LOAD_BALANCERS
    try:
        answer = await work.patience.send(lambda: api.request("DELETE", path, priority=priority))
    except NotFound:
        return False
    if answer.get("action") is not None:
        await api.wait(convert(answer["action"], Action, f"DELETE {path}"), priority=priority)
    return True
