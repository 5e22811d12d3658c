"""A local copy of one collection, kept current: list, then watch, for ever.

The promises (client-go's reflector and shared informer, without threads):

- after ``synced`` the copy is complete as of some recent moment and only moves forward;
- a lost connection, an expired resource version or a malformed response costs a pause and at most a new list,
  and handlers learn every difference, also of what was deleted meanwhile;
- pauses grow from 0.8 to 30 seconds with jitter: an API server that comes back is not run over; after a watch
  that worked they begin again;
- a list whose pages are too large to be taken at once is taken by smaller ones;
- an object that can't be decoded is kept as it was last known. It is never taken for deleted.

Handlers are plain functions ``(old, new)``: old is None for a new object, new is None for a deleted one. They
run on the event loop and must not block; usually they add a key to a work queue.
"""

import asyncio
import random as randomness
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic, TypeVar

import structlog

from ccm.clock import loop_time
from ccm.kube.backoff import Backoff
from ccm.kube.errors import AnswerTooLarge, Gone, KubernetesError, Unreadable
from ccm.kube.objects import PartialObject
from ccm.kube.protocol import Transport, WatchEvent

T = TypeVar("T", bound=PartialObject)
Handler = Callable[[T | None, T | None], None]

# Objects. A page of large ones is too much at once; then each try is by a quarter, down to one by one.
_PAGE = 500
_SMALLER = 4
_WATCH_AT_LEAST = 300.0
_QUICK = 1.0
# A watch that has been open for longer than it takes to fail to connect is taken for a working one.
_WORKING_AFTER = 15.0

log = structlog.stdlib.get_logger(__name__)


class Informer(Generic[T]):
    """A local, always current copy of one collection.

    Every ``resync`` seconds, handlers are called for all unchanged objects; 0 is never. ``transform`` is
    applied before an object is stored, as in client-go; it keeps name, namespace, UID and resource version.
    ``synced`` is set with the first complete list; ``last_error`` is why a list or a watch ended last.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        kind: type[T],
        *,
        resync: float = 0.0,
        backoff: Backoff | None = None,
        random: Callable[[], float] = randomness.random,
        transform: Callable[[T], T] = lambda item: item,
    ) -> None:
        self.path = path
        self.synced = asyncio.Event()
        self.last_error = ""
        self._transport = transport
        self._kind = kind
        self._resync = resync
        self._backoff = backoff or Backoff()
        self._random = random
        self._transform = transform
        self._page = _PAGE
        self._objects: dict[str, T] = {}
        self._handlers: list[Handler[T]] = []
        self._failing_since: float | None = None
        self._version = ""
        self._watching_since: float | None = None

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: str) -> T | None:
        """The object of this key (``name`` or ``namespace/name``), or None."""
        return self._objects.get(key)

    def items(self) -> list[T]:
        """All objects, in no particular order. The list is the caller's, the objects are shared."""
        return list(self._objects.values())

    def keys(self) -> list[str]:
        """The keys of all objects."""
        return list(self._objects)

    def add_handler(self, handler: Handler[T]) -> None:
        """Call ``handler(old, new)`` for every object that is there and for every change from now on."""
        self._handlers.append(handler)
        for item in self.items():
            self._call(handler, None, item)

    @property
    def failing_since(self) -> float | None:
        """Event loop's seconds since when nothing but errors came; None while all is well."""
        if self._watching_since is not None and loop_time() - self._watching_since > _WORKING_AFTER:
            self._failing_since = None
        return self._failing_since

    async def run(self) -> None:
        """Keep the copy current, for ever."""
        if self._resync > 0:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._resync_loop())
                group.create_task(self._list_and_watch_loop())
        else:
            await self._list_and_watch_loop()

    async def _list_and_watch_loop(self) -> None:
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except (Gone, Unreadable) as error:
                # Nothing is wrong with the connection: list again at once, but not in a tight loop. A line
                # that can't be read would come again from this version on, and hide all that follow it.
                self._version = ""
                await self._pause(error, relist=True)
            except KubernetesError as error:
                await self._pause(error)

    async def _list(self) -> None:
        while True:
            try:
                await self._list_by(self._page)
            except AnswerTooLarge:
                if self._page == 1:
                    raise
                # Remembered: the objects are no smaller the next time.
                self._page = max(1, self._page // _SMALLER)
            else:
                return

    async def _list_by(self, limit: int) -> None:
        fresh: dict[str, T] = {}
        version = ""
        async with aclosing(self._transport.list_pages(self.path, self._kind, limit=limit)) as pages:
            async for page in pages:
                fresh.update((item.metadata.key, self._transform(item)) for item in page.items)
                known = {metadata.key: self._objects.get(metadata.key) for metadata in page.undecodable}
                fresh.update({key: item for key, item in known.items() if item is not None})
                version = page.resource_version
                del page  # or all of it would be there still while the next one comes
        self._replace(fresh)
        self._version = version
        self._failing_since = None
        self.synced.set()

    def _replace(self, fresh: dict[str, T]) -> None:
        before, self._objects = self._objects, fresh
        for key, old in before.items():
            if key not in fresh:
                self._notify(old, None)
        for key, new in fresh.items():
            old = before.get(key)
            if old is None or old.metadata.resource_version != new.metadata.resource_version:
                self._notify(old, new)

    async def _watch(self) -> None:
        """One watch, from the last version that we saw until it ends."""
        started, events = loop_time(), 0
        # Random, so that not all watches of all replicas end at once.
        timeout = _WATCH_AT_LEAST * (1 + self._random())
        self._watching_since = started
        watching = self._transport.watch(self.path, self._kind, self._version, timeout=timeout)
        try:
            async with aclosing(watching) as changes:
                async for change in changes:
                    events += 1
                    self._failing_since = None
                    self._apply(change)
        finally:
            self._watching_since = None
            if loop_time() - started > _WORKING_AFTER:
                # A proxy before the API server may end every watch that is silent for half a minute.
                self._failing_since = None
                self._backoff.reset()
        if not events and loop_time() - started < _QUICK:
            # A server that ends every watch at once would have us spin.
            raise KubernetesError(message="the watch ended immediately without an event")

    def _apply(self, change: WatchEvent[T]) -> None:
        self._version = change.metadata.resource_version or self._version
        if change.type == "BOOKMARK":
            return
        key = change.metadata.key
        if change.type == "DELETED":
            old = self._objects.pop(key, None)
            if old is not None:
                self._notify(old if change.object is None else self._transform(change.object), None)
        elif change.object is not None:
            old, new = self._objects.get(key), self._transform(change.object)
            self._objects[key] = new
            self._notify(old, new)

    def _notify(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            self._call(handler, old, new)

    def _call(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception:
            # A handler's mistake must cost neither the other handlers nor the copy.
            log.exception("handler_failed", path=self.path)

    async def _pause(self, error: KubernetesError, *, relist: bool = False) -> None:
        now = loop_time()
        self.last_error = str(error)
        if self._failing_since is None:
            self._failing_since = now
        pause = max(self._backoff.next(now, self._random()), error.retry_after or 0.0)
        log.warning("watch_failed", path=self.path, error=str(error), pause=round(pause, 1), relist=relist)
        await asyncio.sleep(pause)

    async def _resync_loop(self) -> None:
        await self.synced.wait()
        while True:
            await asyncio.sleep(self._resync)
            for item in self.items():
                self._notify(item, item)
