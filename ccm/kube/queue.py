"""The work queue of a controller, with client-go's semantics.

A key means "reconcile this object" and doesn't describe a change, so the queue merges equal keys. ``_dirty``
and ``_processing`` give three guarantees:

- a waiting key is in the queue only once, even if it was added several times (``_dirty``);
- no second worker gets a key while a worker processes it (``_processing``);
- if a key is added while it is being processed, it is processed again afterwards, so no change is missed.

``add_rate_limited`` adds a failed key again after 5 ms. Each further failure doubles the delay, up to 1000 s.
All failed keys together share a rate of 10 a second with a burst of 100. The queue uses the time of the event
loop, so tests can use a virtual clock.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ccm.clock import loop_time
from ccm.kube.backoff import RetryLimiter
from ccm.kube.fairness import FairQueue
from ccm.tracing import Tracer


@dataclass(frozen=True, slots=True)
class QueueObserver:
    """Callbacks for metrics of a queue. Times are in seconds."""

    depth: Callable[[int], None]
    added: Callable[[], None]
    started: Callable[[float], None]
    finished: Callable[[float], None]
    retried: Callable[[], None]


class WorkQueue:
    """A queue of keys. Call all methods from one event loop; only ``get`` waits.

    :class:`~ccm.kube.fairness.FairQueue` decides the order of groups. Workers process at most
    ``max_per_group`` keys of one group at the same time; 0 means no limit.
    """

    def __init__(
        self,
        name: str = "",
        *,
        limiter: RetryLimiter | None = None,
        observer: QueueObserver | None = None,
        tracer: Tracer | None = None,
        group: Callable[[str], str] = lambda _key: "",
        max_per_group: int = 0,
    ) -> None:
        self.name = name
        self.tracer = tracer
        self.group, self.max_per_group = group, max_per_group
        self._limiter = RetryLimiter() if limiter is None else limiter
        self._observer = observer
        self._waiting: FairQueue[str] = FairQueue()
        self._busy: Counter[str] = Counter()
        self._dirty: dict[str, float] = {}
        self._processing: dict[str, float] = {}
        self._delayed: dict[str, asyncio.TimerHandle] = {}
        self._changed = asyncio.Event()  # wakes all that wait in get

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: str) -> None:
        """Add a key to the queue, unless the key is already waiting."""
        if key in self._dirty:
            return
        self._dirty[key] = loop_time()
        if self._observer:
            self._observer.added()
        if key not in self._processing:
            self._offer(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Add a key after a delay in seconds. Of several delays for one key, the earliest end applies."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        earlier = self._delayed.get(key)
        if earlier is not None:
            if earlier.when() <= due:
                return
            earlier.cancel()
        self._delayed[key] = loop.call_at(due, self._delay_over, key)

    def add_rate_limited(self, key: str) -> None:
        """Add a failed key again after a delay that increases with each failure of the key."""
        if self._observer:
            self._observer.retried()
        self.add_after(key, self._limiter.delay(key, loop_time()))

    def forget(self, key: str) -> None:
        """Reset the failures of a key that succeeded, so that its next delay is the shortest one again."""
        self._limiter.forget(key)

    def failures(self, key: str) -> int:
        """The number of calls of ``add_rate_limited`` for this key since the last ``forget``."""
        return self._limiter.failures(key)

    def is_delayed(self, key: str) -> bool:
        """Whether a delayed addition of this key is pending, for example a retry."""
        return key in self._delayed

    async def get(self) -> str:
        """Wait for a key and take it. The caller must call ``done`` for this key, even after an error."""
        while (key := self._waiting.pop(self._has_room)) is None:
            self._changed.clear()
            await self._changed.wait()
        self._busy[self.group(key)] += 1
        now = loop_time()
        waited = now - self._dirty.pop(key)
        self._processing[key] = now
        if self._observer:
            self._observer.started(waited)
            self._observer.depth(len(self._waiting))
        return key

    def done(self, key: str) -> None:
        """End the processing of a key. If the key was added meanwhile, the key waits again."""
        started = self._processing.pop(key, None)
        if started is None:
            return
        group = self.group(key)
        self._busy[group] -= 1
        if not self._busy[group]:
            del self._busy[group]
        if len(self._waiting):
            self._changed.set()  # the limit per group may have blocked a key
        if self._observer:
            self._observer.finished(loop_time() - started)
        if key in self._dirty:
            self._offer(key)

    def ages(self) -> list[float]:
        """For each key that a worker processes, the number of seconds since the worker took it."""
        now = loop_time()
        return [now - started for started in self._processing.values()]

    def _has_room(self, group: str) -> bool:
        return not self.max_per_group or self._busy[group] < self.max_per_group

    def _delay_over(self, key: str) -> None:
        del self._delayed[key]
        self.add(key)

    def _offer(self, key: str) -> None:
        self._waiting.add(self.group(key), key)
        if self._observer:
            self._observer.depth(len(self._waiting))
        self._changed.set()
