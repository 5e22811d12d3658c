"""How long the work for one Service waits for whoever else works on what it changes.

A load balancer that somebody else holds, or whose changes hang, must not take up the turn of other Services:
there may be only one. What is not done is tried again later, by itself and ever more rarely.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from ccm.cloud import CloudBusy, CloudError, CloudUnavailable, QuotaExhausted
from ccm.hetzner.api.errors import Locked, TokenChanged

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between tries of one change while another action holds the lock
LONGEST = 20.0  # seconds of all pauses together

T = TypeVar("T")


@dataclass
class Patience:
    """How much of it is left. One for all that is done in one look at a Service.

    Attributes:
        sleep: Waits for so many seconds.
        left: Seconds of pauses that are left.
        hindered: How many changes found no answer, or what they change in other hands.
        refused: Whether nothing at all is taken from us now.
    """

    sleep: Callable[[float], Awaitable[None]]
    left: float = LONGEST
    hindered: int = 0
    refused: bool = False

    @property
    def over(self) -> bool:
        """Whether further changes would fare no better than those that failed, whatever they change."""
        return self.refused or self.hindered > 1

    def note(self, error: CloudError) -> None:
        """A change failed."""
        self.refused = self.refused or isinstance(error, QuotaExhausted | TokenChanged)
        # Once may be the change's own trouble, like that of the server that it is about.
        self.hindered += isinstance(error, CloudBusy | CloudUnavailable)

    async def send(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send a change; while something else works on the resource, wait and try again.

        Raises:
            Locked: It took too long.
            ApiError: The change failed.
        """
        for pause in PAUSES:
            try:
                return await request()
            except Locked:
                if pause > self.left:
                    raise
            self.left -= pause
            await self.sleep(pause)
        return await request()
