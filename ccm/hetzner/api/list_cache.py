"""A cache of one list of the cloud, shared by all controllers; each says how old the list may be.

One reader reads the list while all others wait for it. Our own changes go into the cache at once, even while
a list is being read that was started before the change. A changed token may be of another project, so it
clears the cache.

A cached item proves that the item exists. A missing item does not prove that it doesn't exist: see
:meth:`ccm.cloud.Instances.get` with an accepted age of 0.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from ccm.cloud.errors import CloudError
from ccm.hetzner.api.api_errors import TokenChanged
from ccm.hetzner.api.budget import Priority
from ccm.hetzner.api.client import PAGE, HetznerApi
from ccm.hetzner.api.listing import Listing, UndecodableItem
from ccm.hetzner.api.project_token import ProjectToken


class Resource(Protocol):
    """Anything with an id and a name that is unique in its project."""

    @property
    def id(self) -> int:
        """The id."""
        ...

    @property
    def name(self) -> str:
        """The name."""
        ...


T = TypeVar("T", bound=Resource)


@dataclass
class Contents(Generic[T]):
    """What a cache holds."""

    by_id: dict[int, T] = field(default_factory=dict[int, T])
    by_name: dict[str, T] = field(default_factory=dict[str, T])
    # items that exist but did not decode, by id
    undecodable: dict[int, UndecodableItem] = field(default_factory=dict[int, UndecodableItem])
    # when each item was last read, on the cache's clock
    seen: dict[int, float] = field(default_factory=dict[int, float])

    def write(self, number: int, item: T | None, now: float) -> None:
        """Have this item in this state; None = have it no more."""
        former = self.by_id.pop(number, None)
        if former is not None and self.by_name.get(former.name) is former:
            del self.by_name[former.name]
        self.undecodable.pop(number, None)
        self.seen.pop(number, None)
        if item is not None:
            self.by_id[number] = self.by_name[item.name] = item
            self.seen[number] = now


class ListCache(Generic[T]):
    """A list of one kind of resource, read again when a reader needs a fresher one.

    ``fetch`` reads the complete list with ``token`` (None = the token never changes). ``clock``: monotonic
    seconds.
    """

    def __init__(
        self,
        fetch: Callable[[Priority], Awaitable[Listing[T]]],
        *,
        token: ProjectToken | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._token = token or ProjectToken(lambda: "")
        self._seen_with = self._token.number
        self._clock = clock
        self._contents: Contents[T] = Contents()
        self._taken_at: float | None = None
        self._running: asyncio.Task[None] | None = None
        self._running_since = 0.0
        self._running_priority = Priority.SWEEP
        self._written: dict[int, tuple[float, T | None]] = {}

    @property
    def age(self) -> float | None:
        """Seconds since the last list was asked for; None = there is none yet."""
        self._forget_other_tokens()
        return None if self._taken_at is None else self._clock() - self._taken_at

    @property
    def pages(self) -> int:
        """How many requests a list costs."""
        return 1 + len(self.contents.by_id) // PAGE

    @property
    def contents(self) -> Contents[T]:
        """What is known now, whatever its age."""
        self._forget_other_tokens()
        return self._contents

    def item_age(self, number: int) -> float | None:
        """Seconds since an item was last read; None = it is not known."""
        seen = self.contents.seen.get(number)
        return None if seen is None else self._clock() - seen

    def listed_age(self, number: int) -> float | None:
        """Seconds since an item was read as part of a list; None = it was not, or changed or read since."""
        seen = self.contents.seen.get(number)
        return None if seen is None or seen != self._taken_at else self._clock() - seen

    async def read(self, accepted_age: float, priority: Priority) -> Contents[T]:
        """The list, at most ``accepted_age`` seconds old; ``priority`` is that of requests for it.

        Raises TokenChanged if the work of the caller holds another token than the current one, or the token
        changed during the read. Raises another ApiError if the list could not be read completely. The former
        contents stay.
        """
        asked_at = self._clock()
        while self._is_older(accepted_age, asked_at):
            if self._running is not None and asked_at - self._running_since > accepted_age:
                # It is too old for us already; its failure is not ours.
                await asyncio.wait([self._running])
            joined = self._running is not None
            running = self._running or self._start(priority)
            starter = self._running_priority
            try:
                # Shielded: one reader's end must not take the list away from the others.
                await asyncio.shield(running)
            except TokenChanged:
                self._token.check()
                if not joined:
                    raise
            except CloudError:
                # A more important request may succeed, for instance because it may use more of the quota.
                if starter <= priority:
                    raise
        self._token.check()
        return self._contents

    def put(self, item: T) -> None:
        """We changed or read this one item: it is in this state now."""
        self._write(item.id, item)

    def remove(self, number: int) -> None:
        """We deleted this item, or the API said that it is gone."""
        self._write(number, None)

    async def close(self) -> None:
        """Stop reading."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    def _is_older(self, accepted_age: float, now: float) -> bool:
        self._forget_other_tokens()
        return self._taken_at is None or now - self._taken_at > accepted_age

    def _forget_other_tokens(self) -> None:
        if self._seen_with != self._token.number:
            self._seen_with = self._token.number
            self._contents, self._taken_at = Contents(), None
            self._written.clear()

    def _write(self, number: int, item: T | None) -> None:
        self._forget_other_tokens()
        if not self._token.is_held:
            return  # it is the other token's
        now = self._clock()
        self._contents.write(number, item, now)
        if self._running is not None:
            self._written[number] = (now, item)

    def _start(self, priority: Priority) -> asyncio.Task[None]:
        self._running_since = self._clock()
        self._running_priority = priority
        self._running = asyncio.create_task(self._refresh(priority), name="hetzner-list")
        self._running.add_done_callback(_retrieve)
        return self._running

    async def _refresh(self, priority: Priority) -> None:
        started = self._running_since
        try:
            with self._token.hold():
                listing = await self._fetch(priority)
            contents: Contents[T] = Contents(undecodable={item.id: item for item in listing.undecodable})
            for item in listing.items:
                contents.write(item.id, item, started)
            for number, (when, written) in self._written.items():
                contents.write(number, written, when)
            self._forget_other_tokens()
            self._contents, self._taken_at = contents, started
        finally:
            self._running = None
            self._written.clear()


def cache_of(api: HetznerApi, collection: str, kind: type[T]) -> ListCache[T]:
    """A cache of a collection of the API, like ``load_balancers``."""
    return ListCache(
        lambda priority: api.list(f"/{collection}", collection, kind, priority=priority), token=api.token
    )


def _retrieve(task: asyncio.Task[None]) -> None:
    """Look at a list's failure, so that asyncio does not complain if all readers have left."""
    if not task.cancelled():
        task.exception()
