"""What we ask of a connection to an API server.

Two classes implement it: :class:`ccm.kube.transport.KubernetesTransport` (the network) and
:class:`ccm.testing.memory_transport.MemoryTransport` (an API server in this process). All other code takes a
``Transport``.
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

    Every method raises a ``ccm.kube.errors.KubernetesError``: what the server said, or ConnectionFailed. All
    of them may be cancelled; then the effect of a write is unknown.
    """

    async def get(self, path: str, kind: type[T]) -> T:
        """One object. Raises NotFound if there is none."""
        ...

    def list_pages(
        self, path: str, kind: type[T], *, limit: int = 500, name: str = ""
    ) -> AsyncGenerator[Page[T], None]:
        """All objects of a collection, page by page, as of one moment; or only those called ``name``.

        That needs the right to list and none to get. Raises Gone if the server forgot that moment (start
        again), AnswerTooLarge if a page is too large (start again with a smaller ``limit``).
        """
        ...

    def watch(
        self, path: str, kind: type[T], resource_version: str, *, timeout: float
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Changes of a collection since a resource version. The server ends it after ``timeout`` seconds.

        Raises Gone if the server forgot the resource version (list again), ConnectionFailed if the connection
        broke or was silent for longer than ``timeout`` and some grace.
        """
        ...

    async def patch(
        self, path: str, body: Body, kind: type[T], *, content_type: PatchType = MERGE_PATCH
    ) -> T:
        """Change an object and return it. With metadata.resourceVersion in the body it may raise Conflict."""
        ...

    async def create(self, path: str, body: Body, kind: type[T]) -> T:
        """Create an object in the collection at ``path`` and return it. Raises AlreadyExists."""
        ...

    async def update(self, path: str, body: Body, kind: type[T]) -> T:
        """Replace an object and return it. Only for objects that are wholly ours: unknown fields are lost."""
        ...

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        """Delete an object. Raises Conflict if its UID isn't ``uid``, NotFound if it is gone already."""
        ...
