"""The project's request budget, divided by priority.

Hetzner Cloud allows 3,600 requests an hour for each project, refills this quota continuously, and reports the
remaining requests in each response. Other clients use the same quota, so this bucket is an estimate that
every response corrects. A request takes one token, or waits for a token. The lower the priority of a request,
the more tokens it leaves to others. A request that would wait too long is refused immediately, so that its
caller can delay the work and report the delay.
"""

import asyncio
import enum
import heapq
import itertools
import time
from collections.abc import Callable

from ccm.cloud.errors import Notice, QuotaExhausted

MAX_WAIT = 30.0  # seconds


class QuotaUsedUp(QuotaExhausted):
    """The project has no requests left at the moment."""

    def __init__(self, limit: int, retry_after: float) -> None:
        message = (
            f"the project has no API requests left. The limit of {limit} requests per hour applies to "
            f"all tokens of the project together. Retrying in {retry_after:.0f} s"
        )
        super().__init__(message, notices=[Notice("RateLimited", message)])
        self.retry_after = retry_after  # seconds after which requests should be available again


class Priority(enum.IntEnum):
    """The order of requests while the quota is low."""

    NODES = 0  # new nodes wait for their first Pods
    ROUTES = 1
    # Only here can tenants cause unlimited work, by changing a Service every second.
    LOAD_BALANCERS = 2
    SWEEP = 3  # periodic checks


# The share of the bucket that each priority leaves to higher priorities. So owners of Services can't use the
# last hundred requests, which are for nodes and routes, nor all requests that are refilled later.
RESERVE = {Priority.NODES: 0.0, Priority.ROUTES: 0.02, Priority.LOAD_BALANCERS: 0.05, Priority.SWEEP: 0.1}


class Budget:
    """A token bucket that follows the server's ``RateLimit-*`` headers."""

    def __init__(
        self,
        *,
        limit: int = 3600,
        clock: Callable[[], float] = time.monotonic,
        on_wait: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.limit = limit  # size of the bucket and refill per hour, in requests
        self._clock = clock
        self._on_wait = on_wait
        self._tokens = float(limit)
        self._refilled_at = clock()
        self._in_flight = 0
        self._order = itertools.count()
        self._waiting: list[tuple[Priority, int, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def remaining(self) -> float:
        """The estimated number of requests that can be sent now."""
        self._refill()
        return self._tokens

    def expected_wait(self, priority: Priority) -> float:
        """Seconds that a new request of this priority would wait, without later requests."""
        self._refill()
        ahead = sum(1 for other, _, future in self._waiting if other <= priority and not future.done())
        needed = 1 + ahead + RESERVE[priority] * self.limit - self._tokens
        return max(0.0, needed * 3600 / self.limit)

    async def acquire(self, priority: Priority) -> None:
        """Wait for one request; call :meth:`release` after it. Raises QuotaUsedUp after :data:`MAX_WAIT`."""
        expected = self.expected_wait(priority)
        if expected > MAX_WAIT:
            raise QuotaUsedUp(self.limit, expected)
        if (not self._waiting or self._waiting[0][0] > priority) and self._take(priority):
            return
        started = self._clock()
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._order), future))
        self._schedule()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._tokens += 1
                self.release()
                self._wake()
            raise
        self._on_wait(self._clock() - started)

    def release(self) -> None:
        """Record the end of a request."""
        self._in_flight -= 1

    def observe(self, limit: int | None, remaining: int | None) -> None:
        """Update the estimate from a response's headers, which include the requests of other clients."""
        if limit is not None and limit > 0:
            self.limit = limit
        if remaining is not None:
            self._refill()
            # The response may not include requests that are in flight.
            self._tokens = max(0.0, min(float(self.limit), remaining - max(0, self._in_flight - 1)))
        self._wake()

    def exhausted(self) -> None:
        """Set the estimate to zero after a response with status 429."""
        self._refill()
        self._tokens = 0.0

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(float(self.limit), self._tokens + (now - self._refilled_at) * self.limit / 3600)
        self._refilled_at = now

    def _take(self, priority: Priority) -> bool:
        self._refill()
        if self._tokens < 1 + RESERVE[priority] * self.limit:
            return False
        self._tokens -= 1
        self._in_flight += 1
        return True

    def _wake(self) -> None:
        """Wake waiting requests while tokens are left, by priority."""
        while self._waiting:
            priority, _, future = self._waiting[0]
            if future.done():
                heapq.heappop(self._waiting)
                continue
            if not self._take(priority):
                break
            heapq.heappop(self._waiting)
            future.set_result(None)
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        self._refill()
        needed = 1 + RESERVE[self._waiting[0][0]] * self.limit - self._tokens
        delay = max(0.01, needed * 3600 / self.limit)
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake)
