"""The results of a plan's steps, and the retry budget of one sync.

A locked load balancer, or hanging changes of it, must not block other Services, because there may be only one
worker. A failed step is retried later, with increasing delays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ccm.cloud import CloudBusy, CloudError, CloudUnavailable, Notice, QuotaExhausted
from ccm.hetzner.api import Priority, convert
from ccm.hetzner.api.api_errors import Locked, NotFound, TokenChanged
from ccm.hetzner.api.models import Action
from ccm.hetzner.load_balancers.cache import SharedCache
from ccm.hetzner.load_balancers.observed import ObservedState


@dataclass
class ApplyState:
    """The results of one reconciliation so far."""

    cache: SharedCache  # the shared caches
    retry_budget: RetryBudget
    observed: ObservedState  # the current state
    steps: list[str] = field(default_factory=list[str])  # steps that were done
    errors: list[CloudError] = field(default_factory=list[CloudError])  # errors of failed steps
    notices: list[Notice] = field(default_factory=list[Notice])  # for the owner
    again: bool = False  # whether the API made a choice, so that a new plan is necessary
    released: list[int] = field(default_factory=list[int])  # IDs of load balancers that the Service has left

    def failed(self, error: CloudError) -> None:
        """Record the error of a step."""
        self.errors.append(error)
        self.retry_budget.note(error)

    async def delete(self, path: str) -> bool:
        """Delete an object and wait. Returns False if it didn't exist. Raises ApiError after a failure."""
        api, priority = self.cache.inventory.api, Priority.LOAD_BALANCERS
        try:
            answer = await self.retry_budget.send(lambda: api.request("DELETE", path, priority=priority))
        except NotFound:
            return False
        if answer.get("action") is not None:
            await api.wait(convert(answer["action"], Action, f"DELETE {path}"), priority=priority)
        return True


PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between attempts of one change while the object is locked
MAX_TOTAL_PAUSE = 20.0  # seconds of all pauses together

T = TypeVar("T")


@dataclass
class RetryBudget:
    """The remaining time for pauses between retries, for all changes of one sync of a Service."""

    sleep: Callable[[float], Awaitable[None]]  # waits for a number of seconds
    left: float = MAX_TOTAL_PAUSE  # seconds of pauses left
    unanswered: int = 0  # number of changes without a response, or with a locked object
    refused: bool = False  # whether the API refuses all requests now

    @property
    def exhausted(self) -> bool:
        """Whether further changes would probably fail too."""
        return self.refused or self.unanswered > 1

    def note(self, error: CloudError) -> None:
        """Record the error of a change."""
        self.refused = self.refused or isinstance(error, QuotaExhausted | TokenChanged)
        # A single failure may have a specific reason, such as the server of a target.
        self.unanswered += isinstance(error, CloudBusy | CloudUnavailable)

    async def send(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send a change. Retries while the resource is locked. Raises Locked or another ApiError."""
        for pause in PAUSES:
            try:
                return await request()
            except Locked:
                if pause > self.left:
                    raise
            self.left -= pause
            await self.sleep(pause)
        return await request()
