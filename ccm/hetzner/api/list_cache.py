"""A cache of one list, shared by all controllers. Each caller sets the maximum age of the list.

One reader reads the list, and all others wait for the result. Our own changes are stored in the cache
immediately, and also applied to a list whose read started before the change. A new token clears the cache,
because the token may belong to another project.

If an item is cached, it exists. If an item is missing, it may still exist. To make sure, use
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
    """A resource with an ID, and a name that is unique in its project."""

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
    """The content of a cache."""

    by_id: dict[int, T] = field(default_factory=dict[int, T])
    by_name: dict[str, T] = field(default_factory=dict[str, T])
    # undecodable items by ID; these items exist
    undecodable: dict[int, UndecodableItem] = field(default_factory=dict[int, UndecodableItem])
    # when each item was last read, on the cache's clock
    seen: dict[int, float] = field(default_factory=dict[int, float])

    def write(self, number: int, item: T | None, now: float) -> None:
        """Store an item, or remove it (None)."""
        former = self.by_id.pop(number, None)
        if former is not None and self.by_name.get(former.name) is former:
            del self.by_name[former.name]
        self.undecodable.pop(number, None)
        self.seen.pop(number, None)
        if item is not None:
            self.by_id[number] = self.by_name[item.name] = item
            self.seen[number] = now


class ListCache(Generic[T]):
    """A cached list of one kind of resource, read again when a caller needs a newer list.

    ``fetch`` reads the complete list with ``token`` (None = the token never changes). ``clock`` returns
    monotonic seconds.
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
        """Seconds since the request of the last list; None = no list yet."""
        self._forget_other_tokens()
        return None if self._taken_at is None else self._clock() - self._taken_at

    @property
    def pages(self) -> int:
        """The number of requests for a list."""
        return 1 + len(self.contents.by_id) // PAGE

    @property
    def contents(self) -> Contents[T]:
        """The current content of any age."""
        self._forget_other_tokens()
        return self._contents

    def item_age(self, number: int) -> float | None:
        """Seconds since an item was last read; None = the item isn't cached."""
        seen = self.contents.seen.get(number)
        return None if seen is None else self._clock() - seen

    def listed_age(self, number: int) -> float | None:
        """Seconds since an item was read in a list; None if it is missing, or was changed or read since."""
        seen = self.contents.seen.get(number)
        return None if seen is None or seen != self._taken_at else self._clock() - seen

    async def read(self, accepted_age: float, priority: Priority) -> Contents[T]:
        """Return the list, at most ``accepted_age`` seconds old. Requests for the list have ``priority``.

        Raises TokenChanged if the caller holds a token that isn't the current one, or if the token changed
        during the read. Raises another ApiError if the list could not be read completely. Then the old
        content stays.
        """
        asked_at = self._clock()
        while self._is_older(accepted_age, asked_at):
            if self._running is not None and asked_at - self._running_since > accepted_age:
                # The running read started too early for this caller, so ignore its result.
                await asyncio.wait([self._running])
            joined = self._running is not None
            running = self._running or self._start(priority)
            starter = self._running_priority
            try:
                # Shielded, so that the cancellation of one caller doesn't affect the others.
                await asyncio.shield(running)
            except TokenChanged:
                self._token.check()
                if not joined:
                    raise
            except CloudError:
                # A request with a higher priority may succeed, because it may use more of the quota.
                if starter <= priority:
                    raise
        self._token.check()
        return self._contents

    def put(self, item: T) -> None:
        """Store an item that we changed or read."""
        self._write(item.id, item)

    def remove(self, number: int) -> None:
        """Remove an item that we deleted or that the API reported as missing."""
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
            return  # the item belongs to the old token
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
    """Create a cache of a collection of the API, such as ``load_balancers``."""
    return ListCache(
        lambda priority: api.list(f"/{collection}", collection, kind, priority=priority), token=api.token
    )


def _retrieve(task: asyncio.Task[None]) -> None:
    """Retrieve the error of a read, so that asyncio logs no warning if no caller is left."""
    if not task.cancelled():
        task.exception()
