"""The interface of a connection to an API server.

Two classes implement it: :class:`ccm.kube.transport.KubernetesTransport` (the network) and
:class:`ccm.testing.memory_transport.MemoryTransport` (an API server in this process). All other code uses the
protocol ``Transport``.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from ccm.kube.objects import ObjectMeta

T = TypeVar("T")
PatchType = Literal["application/merge-patch+json", "application/strategic-merge-patch+json"]
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
Body = Mapping[str, Any] | Sequence[Any]

MERGE_PATCH: PatchType = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: PatchType = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list."""

    items: list[T]
    resource_version: str  # the start of a watch of the complete list
    # metadata of existing objects that can't be decoded; don't treat them as deleted
    undecodable: list[ObjectMeta] = field(default_factory=list[ObjectMeta])


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A change of an object, or a BOOKMARK, which reports a newer resource version without a change."""

    type: EventType
    metadata: ObjectMeta  # a BOOKMARK has only the resource version
    object: T | None  # None for a BOOKMARK, and for an object that can't be decoded


class Transport(Protocol):
    """A connection to an API server. Paths are absolute: ``/api/v1/nodes/NAME/status``.

    Every method raises a ``ccm.kube.errors.KubernetesError``: the server's error, or ConnectionFailed. You
    can cancel every call. After that, the effect of a write is unknown.
    """

    async def get(self, path: str, kind: type[T]) -> T:
        """Read one object. Raises NotFound if it doesn't exist."""
        ...

    def list_pages(
        self, path: str, kind: type[T], *, limit: int = 500, name: str = ""
    ) -> AsyncGenerator[Page[T], None]:
        """Read a consistent list of all objects of a collection in pages, or only objects named ``name``.

        This needs the permission to list, but not to get. Raises Gone if the continue token has expired
        (start again), AnswerTooLarge if a page is too large (start again with a smaller ``limit``).
        """
        ...

    def watch(
        self, path: str, kind: type[T], resource_version: str, *, timeout: float
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Watch a collection from a resource version. The server ends the watch after ``timeout`` seconds.

        Raises Gone if the resource version is too old (list again), ConnectionFailed if the connection broke
        or was silent for longer than ``timeout`` plus a grace period.
        """
        ...

    async def patch(
        self, path: str, body: Body, kind: type[T], *, content_type: PatchType = MERGE_PATCH
    ) -> T:
        """Patch an object and return it. Raises Conflict if metadata.resourceVersion is outdated."""
        ...

    async def create(self, path: str, body: Body, kind: type[T]) -> T:
        """Create an object in the collection at ``path`` and return it. Raises AlreadyExists."""
        ...

    async def update(self, path: str, body: Body, kind: type[T]) -> T:
        """Replace an object and return it. Only for objects of our own, because unknown fields are lost."""
        ...

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        """Delete an object. Raises Conflict if its UID isn't ``uid``, NotFound if it is gone already."""
        ...
