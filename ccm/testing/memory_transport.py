"""A small Kubernetes API server in this process, for tests of controllers and for users of the framework.

It implements what a controller can notice: growing resource versions, optimistic locking, the status
subresource, both kinds of merge patch, finalizers and UID preconditions. All pages of a list show one moment,
watches have bookmarks and an end, and forgotten versions cause 410. It doesn't validate objects, set defaults
or check permissions.

Tests can let requests fail (``fail``), end all watches (``disconnect``) and drop the history (``compact``).
``requests`` contains every request.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, cast

import msgspec

from ccm.clock import loop_time
from ccm.kube.decoding import decode_event, decode_one, decode_page
from ccm.kube.errors import (
    AlreadyExists,
    Conflict,
    ConnectionFailed,
    Gone,
    Invalid,
    KubernetesError,
    NotFound,
)
from ccm.kube.events import timestamp
from ccm.kube.objects import to_wire
from ccm.kube.protocol import MERGE_PATCH, Body, EventType, Page, PatchType, WatchEvent
from ccm.testing import patching

T = TypeVar("T")
Object = dict[str, Any]
Verb = Literal["get", "list", "watch", "patch", "create", "update", "delete"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request that arrived."""

    verb: Verb
    path: str
    body: Any = None


@dataclass(slots=True)
class _Fault:
    verb: Verb | None
    prefix: str
    error: KubernetesError
    times: int
    after: bool

    def hits(self, verb: Verb, path: str) -> bool:
        return self.times > 0 and self.verb in (None, verb) and path.startswith(self.prefix)


@dataclass(slots=True)
class _Change:
    version: int
    type: EventType
    resource: Resource
    object: Object


@dataclass(slots=True)
class _Watcher:
    resource: Resource
    changes: asyncio.Queue[_Change | KubernetesError] = field(default_factory=asyncio.Queue)


class MemoryTransport:
    """A ``Transport`` for objects in memory; records ``requests``, which take ``latency`` seconds."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.latency = 0.0
        self._objects: dict[Resource, Object] = {}
        self._version = 1
        self._forgotten = 0
        self._history: list[_Change] = []
        self._watchers: list[_Watcher] = []
        self._faults: list[_Fault] = []
        self._answers: dict[str, Callable[[Object], Object]] = {}

    # For tests: what people and other components do to the cluster.

    def put(self, path: str, item: object) -> Object:
        """Create or replace an object in a collection without any check, and return it as stored."""
        body: Object = copy.deepcopy(cast("Object", item)) if isinstance(item, dict) else to_wire(item)
        resource = parse(path).named(str(body.get("metadata", {}).get("name", "")))
        old = self._objects.get(resource)
        if old is None:
            return self._insert(resource, body)
        identity = {name: old["metadata"][name] for name in ("uid", "creationTimestamp")}
        body["metadata"] = {**body.get("metadata", {}), **identity}
        return self._store(resource, body)

    def read(self, path: str) -> Object:
        """A copy of the stored object at a path. Raises NotFound."""
        return copy.deepcopy(self._find(parse(path)))

    def all(self, path: str) -> list[Object]:
        """Copies of all objects of a collection, by key."""
        return [copy.deepcopy(item) for _, item in self._members(parse(path))]

    def remove(self, path: str) -> None:
        """Delete an object like a user; with finalizers, it stays for now. Raises NotFound."""
        resource = parse(path)
        self._delete(resource, self._find(resource))

    def fail(
        self,
        error: KubernetesError,
        *,
        verb: Verb | None = None,
        prefix: str = "",
        times: int = 1,
        after: bool = False,
    ) -> None:
        """Let the next requests of a verb to paths with a prefix fail; ``after``: after they take effect."""
        self._faults.append(_Fault(verb, prefix, error, times, after))

    def answer(self, path: str, function: Callable[[Object], Object]) -> None:
        """Return ``function(body)`` for creations at a path, and store nothing, as for reviews."""
        self._answers[path] = function

    def disconnect(self, error: KubernetesError | None = None) -> None:
        """Cut all open watches with an error."""
        for watcher in self._watchers:
            watcher.changes.put_nowait(error or ConnectionFailed(message="connection reset"))

    def bookmark(self) -> None:
        """Send a bookmark to all open watches."""
        for watcher in self._watchers:
            metadata = {"resourceVersion": str(self._version)}
            bookmark = _Change(self._version, "BOOKMARK", watcher.resource, {"metadata": metadata})
            watcher.changes.put_nowait(bookmark)

    def compact(self) -> None:
        """Forget the history: watches from versions before now are Gone."""
        self._forgotten = self._version
        self._history.clear()

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._watchers)

    # What a Transport offers.

    async def get(self, path: str, kind: type[T]) -> T:
        fault = await self._begin("get", path)
        item = self._find(parse(path))
        return self._end(fault, item, kind)

    async def list_pages(
        self, path: str, kind: type[T], *, limit: int = 500, name: str = ""
    ) -> AsyncGenerator[Page[T], None]:
        """All objects of a collection at the time of the first page; see ``Transport``."""
        resource, version, members = parse(path), 0, list[Object]()
        start = 0
        while True:
            fault = await self._begin("list", path)
            if start == 0:
                version = self._version
                members = [item for key, item in self._members(resource) if name in ("", key.name)]
            elif self._forgotten > version:
                raise Gone(410, "Expired", "The provided continue parameter is too old")
            if fault is not None:
                raise fault.error
            answer = {"metadata": {"resourceVersion": str(version)}, "items": members[start : start + limit]}
            page, _ = decode_page(msgspec.json.encode(answer), kind)
            yield page
            start += limit
            if start >= len(members):
                return

    async def watch(
        self, path: str, kind: type[T], resource_version: str, *, timeout: float
    ) -> AsyncGenerator[WatchEvent[T], None]:
        fault = await self._begin("watch", path)
        if fault is not None:
            raise fault.error
        since = int(resource_version or "0")
        if since < self._forgotten:
            raise Gone(410, "Expired", f"too old resource version: {since} ({self._forgotten})")
        watcher = _Watcher(parse(path))
        for change in self._history:
            if change.version > since and watcher.resource.contains(change.resource):
                watcher.changes.put_nowait(change)
        self._watchers.append(watcher)
        ends = loop_time() + timeout
        try:
            while change := await self._next_change(watcher, ends):
                if isinstance(change, KubernetesError):
                    raise change
                line = msgspec.json.encode({"type": change.type, "object": change.object})
                event = decode_event(line, kind)
                if event is not None:
                    yield event
        finally:
            self._watchers.remove(watcher)

    async def patch(
        self, path: str, body: Body, kind: type[T], *, content_type: PatchType = MERGE_PATCH
    ) -> T:
        fault = await self._begin("patch", path, body)
        resource = parse(path)
        old = self._find(resource)
        apply = patching.merge if content_type == MERGE_PATCH else patching.strategic_merge
        self._check_version(old, cast("Object", body))
        _check_identity(old, cast("Object", body))
        new = apply(old, body)
        return self._end(fault, self._change(resource, old, new), kind)

    async def create(self, path: str, body: Body, kind: type[T]) -> T:
        fault = await self._begin("create", path, body)
        item = copy.deepcopy(dict(cast("Object", body)))
        if path in self._answers:
            return self._end(fault, self._answers[path](item), kind)
        name = item.get("metadata", {}).get("name")
        if not name:
            raise Invalid(422, "Invalid", "metadata.name: Required value")
        resource = parse(path).named(name)
        if resource in self._objects:
            raise AlreadyExists(409, "AlreadyExists", f'{resource.plural} "{name}" already exists')
        return self._end(fault, self._insert(resource, item), kind)

    async def update(self, path: str, body: Body, kind: type[T]) -> T:
        fault = await self._begin("update", path, body)
        resource = parse(path)
        old = self._find(resource)
        new = copy.deepcopy(dict(cast("Object", body)))
        self._check_version(old, new)
        return self._end(fault, self._change(resource, old, new), kind)

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        fault = await self._begin("delete", path)
        resource = parse(path)
        item = self._find(resource)
        if uid is not None and item["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", f"the UID in the precondition ({uid}) does not match")
        self._delete(resource, item)
        if fault is not None:
            raise fault.error

    # The server's inside.

    async def _begin(self, verb: Verb, path: str, body: Any = None) -> _Fault | None:
        """Record the request. Raises an error before the effect, or returns a fault for after the effect."""
        self.requests.append(Request(verb, path, copy.deepcopy(body)))
        await asyncio.sleep(self.latency)
        fault = next((rule for rule in self._faults if rule.hits(verb, path)), None)
        if fault is None:
            return None
        fault.times -= 1
        if not fault.after:
            raise fault.error
        return fault

    def _end(self, fault: _Fault | None, item: Object, kind: type[T]) -> T:
        if fault is not None:
            raise fault.error
        return decode_one(msgspec.json.encode(item), kind)

    def _find(self, resource: Resource) -> Object:
        item = self._objects.get(resource.main)
        if item is None:
            raise NotFound(404, "NotFound", f'{resource.plural} "{resource.name}" not found')
        return item

    def _members(self, collection: Resource) -> Iterator[tuple[Resource, Object]]:
        members = [(key, item) for key, item in self._objects.items() if collection.contains(key)]
        return iter(sorted(members, key=lambda member: (member[0].namespace, member[0].name)))

    def _insert(self, resource: Resource, item: Object) -> Object:
        metadata: Object = {"uid": str(uuid.uuid4()), **item.get("metadata", {})}
        metadata["creationTimestamp"] = metadata.get("creationTimestamp") or timestamp(datetime.now(UTC))
        if resource.namespace:
            metadata["namespace"] = resource.namespace
        item["metadata"] = metadata
        return self._store(resource, item)

    def _change(self, resource: Resource, old: Object, new: Object) -> Object:
        """Store the result of a write, but keep the fields that this endpoint can't change."""
        fixed = ("uid", "name", "namespace", "creationTimestamp", "deletionTimestamp", "resourceVersion")
        identity = {name: old["metadata"][name] for name in fixed if name in old["metadata"]}
        new = {**new, "metadata": {**new.get("metadata", {}), **identity}}
        for part in resource.read_only_parts:
            new.pop(part, None)
            if part in old:
                new[part] = old[part]
        if new == old:
            return old
        if "deletionTimestamp" in identity and not new["metadata"].get("finalizers"):
            return self._vanish(resource.main, new)
        return self._store(resource.main, new)

    def _delete(self, resource: Resource, item: Object) -> None:
        if not item["metadata"].get("finalizers"):
            self._vanish(resource.main, item)
        elif "deletionTimestamp" not in item["metadata"]:
            metadata = {**item["metadata"], "deletionTimestamp": timestamp(datetime.now(UTC))}
            self._store(resource.main, {**item, "metadata": metadata})

    def _store(self, resource: Resource, item: Object) -> Object:
        event: EventType = "MODIFIED" if resource in self._objects else "ADDED"
        self._objects[resource] = self._publish(event, resource, item)
        return self._objects[resource]

    def _vanish(self, resource: Resource, item: Object) -> Object:
        del self._objects[resource]
        return self._publish("DELETED", resource, item)

    def _publish(self, event: EventType, resource: Resource, item: Object) -> Object:
        self._version += 1
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self._version)}}
        change = _Change(self._version, event, resource, item)
        self._history.append(change)
        for watcher in self._watchers:
            if watcher.resource.contains(resource):
                watcher.changes.put_nowait(change)
        return item

    async def _next_change(self, watcher: _Watcher, ends: float) -> _Change | KubernetesError | None:
        try:
            async with asyncio.timeout_at(ends):
                return await watcher.changes.get()
        except TimeoutError:
            return None

    def _check_version(self, old: Object, new: Object) -> None:
        metadata = cast("Object", new.get("metadata") or {})
        wanted = metadata.get("resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            text = (
                "the object has been modified; please apply your changes to the latest version and try again"
            )
            raise Conflict(409, "Conflict", text)


def _check_identity(old: Object, patch: Object) -> None:
    """Refuse a patch with another UID, because it is for another object with the same name."""
    uid = cast("Object", patch.get("metadata") or {}).get("uid")
    if uid and uid != old["metadata"]["uid"]:
        raise Invalid(422, "Invalid", f'metadata.uid: Invalid value: "{uid}": field is immutable')


_WITH_STATUS = frozenset({"nodes", "services"})


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection (no name) or an object of the API; ``group`` is ``api/v1`` or ``apis/GROUP/VERSION``."""

    group: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def main(self) -> Resource:
        """The object itself, without its subresource."""
        return replace(self, subresource="")

    @property
    def read_only_parts(self) -> tuple[str, ...]:
        """Parts of the object that a write to this endpoint does not change."""
        if self.plural not in _WITH_STATUS:
            return ()
        return ("spec",) if self.subresource == "status" else ("status",)

    def named(self, name: str) -> Resource:
        """The object of this name in this collection."""
        return replace(self, name=name)

    def contains(self, member: Resource) -> bool:
        """Whether an object belongs to this collection."""
        same_kind = (self.group, self.plural) == (member.group, member.plural)
        return same_kind and self.namespace in ("", member.namespace)


def parse(path: str) -> Resource:
    """The resource at a path like ``/api/v1/namespaces/shop/services/web/status``."""
    parts = path.strip("/").split("/")
    size = 2 if parts[0] == "api" else 3
    group, rest = "/".join(parts[:size]), parts[size:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *_ = [*rest, "", "", ""]
    return Resource(group, plural, namespace, name, subresource)
