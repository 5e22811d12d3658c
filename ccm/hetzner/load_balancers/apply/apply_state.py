"""The results of a plan's steps, and how long the work for one Service waits for others.

A load balancer that another client has locked, or whose changes hang, must not block other Services: there
may be only one worker. A step that was not done is retried later, with increasing delay.
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

    cache: SharedCache  # where other reconciliations see the result
    retry_budget: RetryBudget
    observed: ObservedState  # the current state
    steps: list[str] = field(default_factory=list[str])  # steps that were done
    errors: list[CloudError] = field(default_factory=list[CloudError])  # steps that were not done, and why
    notices: list[Notice] = field(default_factory=list[Notice])  # for the owner
    again: bool = False  # whether the API made a choice, so that the rest must be planned again
    released: list[int] = field(default_factory=list[int])  # IDs of load balancers that the Service has left

    def failed(self, error: CloudError) -> None:
        """Something was not done."""
        self.errors.append(error)
        self.retry_budget.note(error)

    async def delete(self, path: str) -> bool:
        """Delete an object and wait; returns False if it didn't exist. Raises ApiError if it still exists."""
        api, priority = self.cache.inventory.api, Priority.LOAD_BALANCERS
        try:
            answer = await self.retry_budget.send(lambda: api.request("DELETE", path, priority=priority))
        except NotFound:
            return False
        if answer.get("action") is not None:
            await api.wait(convert(answer["action"], Action, f"DELETE {path}"), priority=priority)
        return True


PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between tries of one change while another action holds the lock
MAX_TOTAL_PAUSE = 20.0  # seconds of all pauses together

T = TypeVar("T")


@dataclass
class RetryBudget:
    """How long retries may still wait. One budget for all changes of one reconciliation of a Service."""

    sleep: Callable[[float], Awaitable[None]]  # waits for a number of seconds
    left: float = MAX_TOTAL_PAUSE  # seconds of pauses left
    unanswered: int = 0  # how many changes got no answer, or found their object locked by another change
    refused: bool = False  # whether the API refuses all of our requests now

    @property
    def exhausted(self) -> bool:
        """Whether further changes would fare no better than those that failed, whatever they change."""
        return self.refused or self.unanswered > 1

    def note(self, error: CloudError) -> None:
        """A change failed."""
        self.refused = self.refused or isinstance(error, QuotaExhausted | TokenChanged)
        # Once may be the change's own trouble, like that of the server that it is about.
        self.unanswered += isinstance(error, CloudBusy | CloudUnavailable)

    async def send(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send a change; retries while the resource is locked. Raises Locked or another ApiError."""
        for pause in PAUSES:
            try:
                return await request()
            except Locked:
                if pause > self.left:
                    raise
            self.left -= pause
            await self.sleep(pause)
        return await request()
