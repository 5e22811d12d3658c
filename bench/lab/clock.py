"""An event loop whose clock jumps when nothing is in progress."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

T = TypeVar("T")
_START = 1_000_000.0  # as a machine that runs for some days: nothing may take 0 for "never"
_RESOLUTION = 1e-6
_LONGEST_WAIT = 30.0


class Clock:
    """Seconds that only pass when ``now`` is changed."""

    def __init__(self) -> None:
        self.now = _START

    def monotonic(self) -> float:
        """As :func:`time.monotonic`."""
        return self.now


class _Selector(selectors.DefaultSelector):
    """Jumps instead of waiting, unless a thread works for the loop."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.busy = 0
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.busy or timeout is None:
            return super().select(_LONGEST_WAIT)
        self._clock.now += timeout
        return []


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop on a :class:`Clock`; sleeping takes no real time, waiting for a thread no other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jumping = _Selector(clock)
        super().__init__(self._jumping)
        self._clock_resolution = _RESOLUTION

    def time(self) -> float:
        """The clock's time."""
        return self._clock.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """As usual, but the clock does not move until it has ended."""
        future = super().run_in_executor(executor, func, *args)
        self._jumping.busy += 1
        future.add_done_callback(self._done)
        return future

    async def shutdown_default_executor(self, *arguments: Any) -> None:
        """As usual; newer Pythons give up after some minutes, which would be over at once."""
        self._jumping.busy += 1
        try:
            await super().shutdown_default_executor(*arguments)
        finally:
            self._jumping.busy -= 1

    def _done(self, _: asyncio.Future[Any]) -> None:
        self._jumping.busy -= 1


def run(clock: Clock, work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=lambda: JumpingLoop(clock)) as runner:
        return runner.run(work)
