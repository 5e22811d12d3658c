"""The work queue of a controller, with client-go's semantics.

A key is a reminder to look at an object, not a message about it; so equal keys collapse. Three promises
follow from the two sets below:

- a key that waits is in the queue once, however often it was added (``_dirty``);
- a key that is being processed is never handed to a second worker (``_processing``);
- a key that was added while it was being processed is processed once more afterwards: no change is missed.

Failed keys come back through ``add_rate_limited``: 5 ms, doubled with each failure up to 1000 s, and all keys
together never faster than 10 a second beyond a burst of 100. Time is the event loop's, so tests run on a
virtual clock.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from ccm.clock import loop_time
from ccm.kube.backoff import RetryLimiter
from ccm.kube.fairness import FairQueue
from ccm.tracing import Tracer


@dataclass(frozen=True, slots=True)
class QueueObserver:
    """Called when something happens to a queue, for metrics. Times are the event loop's seconds."""

    depth: Callable[[int], None]
    added: Callable[[], None]
    started: Callable[[float], None]
    finished: Callable[[float], None]
    retried: Callable[[], None]


class WorkQueue:
    """Keys to work on. All methods belong to one event loop; only ``get`` waits.

    Keys of several groups take turns, see :class:`~ccm.kube.fairness.FairQueue`; at most ``max_per_group``
    keys of one group are processed at once, 0 is any number.
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
        self._getters: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: str) -> None:
        """Have this key processed, once, soon."""
        if key in self._dirty:
            return
        self._dirty[key] = loop_time()
        if self._observer:
            self._observer.added()
        if key not in self._processing:
            self._offer(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Have this key processed in so many seconds; the earliest of several requests holds."""
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
        """Have this key processed again after a failure, the later the more failures it had."""
        if self._observer:
            self._observer.retried()
        self.add_after(key, self._limiter.delay(key, loop_time()))

    def forget(self, key: str) -> None:
        """This key succeeded: its next failure is its first."""
        self._limiter.forget(key)

    def failures(self, key: str) -> int:
        """How often this key was added rate-limited since it was forgotten."""
        return self._limiter.failures(key)

    def is_delayed(self, key: str) -> bool:
        """Whether this key will be added later by itself, for instance for a retry."""
        return key in self._delayed

    async def get(self) -> str:
        """Wait for a key and take it. Call ``done`` with it afterwards, whatever happens."""
        while (key := self._waiting.pop(self._has_room)) is None:
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # If a key was meant for us, the next one must hear of it.
                if getter.done() and not getter.cancelled():
                    self._wake_one()
                raise
            finally:
                if getter in self._getters:
                    self._getters.remove(getter)
        self._busy[self.group(key)] += 1
        now = loop_time()
        waited = now - self._dirty.pop(key)
        self._processing[key] = now
        if self._observer:
            self._observer.started(waited)
            self._observer.depth(len(self._waiting))
        return key

    def done(self, key: str) -> None:
        """A worker is finished with this key; if it was added meanwhile, it waits again."""
        started = self._processing.pop(key, None)
        if started is None:
            return
        group = self.group(key)
        self._busy[group] -= 1
        if not self._busy[group]:
            del self._busy[group]
        if len(self._waiting):
            self._wake_one()  # the group may have been kept waiting
        if self._observer:
            self._observer.finished(loop_time() - started)
        if key in self._dirty:
            self._offer(key)

    def ages(self) -> list[float]:
        """For each key in the hands of a worker, for how many seconds it has been there."""
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
        self._wake_one()

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
