"""A local copy of one collection, updated by a list and then by watches.

The guarantees are those of client-go's reflector and shared informer, without threads:

- after ``synced``, the copy is complete for a recent resource version, and never older again;
- a lost connection, an expired resource version or a malformed response causes a pause and at most a new
  list, and handlers get every difference, including deletions in the meantime;
- pauses grow from 0.8 to 30 seconds with jitter, to protect an API server that restarts. After a successful
  watch, the pauses start at 0.8 seconds again;
- if a page of a list is too large, the informer requests smaller pages;
- if an object can't be decoded, the informer keeps its last version, and never treats the object as deleted.

Handlers are plain functions ``(old, new)``: old is None for a new object, new is None for a deleted one. They
run on the event loop and must not block. Usually, a handler adds a key to a work queue.
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

# Objects in a page. If a page is too large, each retry requests a quarter, down to one object.
_PAGE = 500
_SMALLER = 4
_WATCH_AT_LEAST = 300.0
_QUICK = 1.0
# A watch that has been open for longer than a failing connection attempt counts as successful.
_WORKING_AFTER = 15.0

log = structlog.stdlib.get_logger(__name__)


class Informer(Generic[T]):
    """A local, always current copy of one collection.

    Every ``resync`` seconds (0 = never), the informer calls handlers for all objects. As in client-go,
    ``transform`` changes objects before they are stored, except name, namespace, UID and resource version.
    ``synced`` is set after the first complete list. ``last_error`` is the last error of a list or a watch.
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

    def get(self, key: str) -> T | None:
        """The object of this key (``name`` or ``namespace/name``), or None."""
        return self._objects.get(key)

    def items(self) -> list[T]:
        """All objects, in any order. The caller may change the list, but not the objects."""
        return list(self._objects.values())

    def add_handler(self, handler: Handler[T]) -> None:
        """Call ``handler(old, new)`` for every existing object, and for every later change."""
        self._handlers.append(handler)
        for item in self.items():
            self._call(handler, None, item)

    @property
    def failing_since(self) -> float | None:
        """The time (of the event loop) since which all requests have failed; None without errors."""
        if self._watching_since is not None and loop_time() - self._watching_since > _WORKING_AFTER:
            self._failing_since = None
        return self._failing_since

    async def run(self) -> None:
        """List and watch until cancelled."""
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
                # The connection works, so list again, after a pause. A watch from the old version would
                # return the undecodable line again, and never reach the lines after it.
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
                # Keep the smaller size for later lists, because the objects stay large.
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
                del page  # free the page before the next one arrives
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
        """Run one watch from the last seen version until the watch ends."""
        started, events = loop_time(), 0
        # Random, so that the watches of all replicas don't end at the same time.
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
                # A proxy in front of the API server may close every watch that is idle for 30 seconds.
                self._failing_since = None
                self._backoff.reset()
        if not events and loop_time() - started < _QUICK:
            # Without a pause, a server that ends every watch immediately would cause a busy loop.
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
            # An error in a handler must affect neither the other handlers nor the copy.
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
