"""A fair order for several tenants: the tenant that was served least recently is next."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


def namespace_of(key: str) -> str:
    """The namespace in ``namespace/name``; empty for objects without a namespace."""
    return key.rpartition("/")[0]


class FairQueue(Generic[T]):
    """Waiting items in groups. The items of one group keep their order."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}
        self._served: dict[str, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, group: str, item: T) -> None:
        """Add an item behind the other items of its group."""
        self._waiting.setdefault(group, deque()).append(item)

    def pop(self, may: Callable[[str], bool] = lambda _group: True) -> T | None:
        """Take the first item of the least recently served group for which ``may`` is true, or None."""
        groups = [group for group in self._waiting if may(group)]
        if not groups:
            return None
        group = min(groups, key=lambda group: self._served.get(group, 0))
        items = self._waiting[group]
        item = items.popleft()
        if not items:
            del self._waiting[group]
        self._count += 1
        self._served[group] = self._count
        return item


class FairSemaphore:
    """Limits the number of concurrent callers to ``places`` (at least 1), in a fair order."""

    def __init__(self, places: int) -> None:
        self._free = max(1, places)
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue()

    @asynccontextmanager
    async def take(self, group: str) -> AsyncGenerator[bool, None]:
        """Take a slot until the end of the block. Yields whether the caller waited for the slot."""
        waits = not self._free
        if not waits:
            self._free -= 1
        else:
            slot = asyncio.get_running_loop().create_future()
            self._queue.add(group, slot)
            try:
                await slot
            except asyncio.CancelledError:
                if slot.done() and not slot.cancelled():
                    self._pass_on()  # the slot was assigned at the moment of the cancellation
                raise
        try:
            yield waits
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while (slot := self._queue.pop()) is not None:
            if not slot.done():
                slot.set_result(None)
                return
        self._free += 1
