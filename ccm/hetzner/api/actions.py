"""Waits for actions. One poller reads all awaited actions, 25 in each request.

A change in the cloud returns an action that runs in the background. All waiters share one poller. So if a
hundred targets are added at once, each poll needs four requests and not a hundred.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from ccm.cloud.errors import CloudError
from ccm.hetzner.api.api_errors import ActionFailed, ActionTimedOut
from ccm.hetzner.api.models import Action

BATCH = 25
FIRST_POLL = 0.4
LAST_POLL = 5.0
GROWTH = 1.5


class ActionWaiter:
    """Waits up to ``timeout`` seconds for actions; ``fetch`` reads up to 25 of them by ID in one request."""

    def __init__(
        self, fetch: Callable[[Sequence[int]], Awaitable[Sequence[Action]]], *, timeout: float = 180.0
    ) -> None:
        self._fetch = fetch
        self._timeout = timeout
        self._pending: dict[int, asyncio.Future[Action]] = {}
        self._interval = FIRST_POLL
        self._poller: asyncio.Task[None] | None = None

    async def wait(self, action: Action) -> None:
        """Wait until an action has succeeded. Raises ActionFailed, or ActionTimedOut if the action is still
        running.

        Raises another CloudError if the action can't be read.
        """
        if action.status == "running":
            action = await self._finished(action)
        if action.status != "success":
            why = f"{action.error.message} ({action.error.code})" if action.error else "no reason given"
            error = ActionFailed(f"action {action.command} failed: {why}")
            error.code = action.error.code if action.error else "unknown"
            raise error

    async def wait_all(self, actions: Iterable[Action]) -> None:
        """Wait until all actions have ended. Then raises the first error, if any."""
        results = await asyncio.gather(*(self.wait(action) for action in actions), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def close(self) -> None:
        """Stop polling, and cancel the waiters."""
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
        for future in self._pending.values():
            future.cancel()
        self._pending.clear()

    async def _finished(self, action: Action) -> Action:
        future = self._pending.get(action.id)
        if future is None:
            future = self._pending[action.id] = asyncio.get_running_loop().create_future()
            self._interval = FIRST_POLL
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll(), name="hetzner-actions")
        try:
            # Shielded because others may wait for the same action.
            return await asyncio.wait_for(asyncio.shield(future), self._timeout)
        except TimeoutError:
            self._pending.pop(action.id, None)
            message = f"action {action.command} ({action.id}) is still running after {self._timeout:g} s"
            raise ActionTimedOut(message) from None

    async def _poll(self) -> None:
        while self._pending:
            await asyncio.sleep(self._interval)
            self._interval = min(self._interval * GROWTH, LAST_POLL)
            ids = sorted(self._pending)
            for start in range(0, len(ids), BATCH):
                await self._poll_batch(ids[start : start + BATCH])

    async def _poll_batch(self, ids: Sequence[int]) -> None:
        try:
            actions = await self._fetch(ids)
        except CloudError as error:
            # The client has already retried, so pass the error to the waiters.
            for number in ids:
                self._resolve(number, error)
            return
        for action in actions:
            if action.status != "running":
                self._resolve(action.id, action)

    def _resolve(self, number: int, outcome: Action | CloudError) -> None:
        future = self._pending.pop(number, None)
        if future is None or future.done():
            return
        if isinstance(outcome, CloudError):
            future.set_exception(outcome)
            future.exception()  # avoids a warning if no waiter is left
        else:
            future.set_result(outcome)
