"""An event loop whose time moves only when a test says so, for stateful tests."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import looptime

T = TypeVar("T")


class VirtualLoop:
    """Runs coroutines; sleeping costs no time."""

    def __init__(self) -> None:
        self.loop = looptime.new_event_loop(start=0, noop_cycles=2)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def settle(self) -> None:
        """Let everything happen that can happen now."""
        self.run(asyncio.sleep(0.0001))

    def advance(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def close(self) -> None:
        async def cancel_all() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(cancel_all())
        self.loop.close()
