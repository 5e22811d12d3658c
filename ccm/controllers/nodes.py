"""Reading and patching Nodes, for all controllers."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from ccm.cloud import Address, NodeView, Notice
from ccm.kube.errors import Conflict, NotFound
from ccm.kube.events import Recorder
from ccm.kube.objects import Node, ObjectReference, Taint, to_wire
from ccm.kube.protocol import Transport

T = TypeVar("T")
TRIES = 20
PAUSE = 0.05  # seconds, plus up to 100 % jitter


def node_path(name: str, subresource: str = "") -> str:
    """A Node's path in the API."""
    return f"/api/v1/nodes/{name}" + (f"/{subresource}" if subresource else "")


def view_of(node: Node, *, asks_power: bool = False) -> NodeView:
    """The part of a Node that a cloud gets; ``asks_power``: see :class:`~ccm.cloud.NodeView`."""
    return NodeView(
        name=node.metadata.name,
        provider_id=node.spec.provider_id,
        uid=node.metadata.uid,
        labels=node.metadata.labels,
        annotations=node.metadata.annotations,
        addresses=addresses_of(node),
        asks_power=asks_power,
    )


def trim_node(node: Node) -> Node:
    """Trim a Node for the cache: all fields of the struct, and annotations up to a limit."""
    annotations = trim_annotations(node.metadata.annotations)
    if annotations is node.metadata.annotations:
        return node
    metadata = msgspec.structs.replace(node.metadata, annotations=dict(annotations))
    return msgspec.structs.replace(node, metadata=metadata)


def addresses_of(node: Node) -> tuple[Address, ...]:
    """The addresses in a Node's status."""
    return tuple(Address(address.type, address.address) for address in node.status.addresses)


def has_taint(node: Node, key: str) -> bool:
    """Whether a Node has a taint of this key, whatever its value and effect."""
    return any(taint.key == key for taint in node.spec.taints)


def is_ready(node: Node) -> bool:
    """Whether a Node's condition Ready is True; False without this condition."""
    return any(
        condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions
    )


def report(recorder: Recorder, about: ObjectReference, notices: Iterable[Notice]) -> None:
    """Create Events for a cloud's notices."""
    for notice in notices:
        recorder.event(about, "Warning" if notice.warning else "Normal", notice.reason, notice.message)


def identity(node: Node) -> dict[str, str]:
    """The metadata of a patch that must fail if a new Node has the name now."""
    return {"uid": node.metadata.uid} if node.metadata.uid else {}


async def patch_addresses(transport: Transport, node: Node, addresses: Sequence[Address]) -> Node | None:
    """Set a Node's addresses in this order. Returns None if the Node already has exactly these addresses.

    A JSON merge patch replaces the whole list. Kubernetes' strategic merge patch merges the list by type,
    which corrupts lists with two addresses of one type.
    """
    if tuple(addresses) == addresses_of(node):
        return None
    status = {"addresses": [{"type": address.type, "address": address.address} for address in addresses]}
    body = {"metadata": identity(node), "status": status}
    return await transport.patch(node_path(node.metadata.name, "status"), body, Node)


async def patch_labels(transport: Transport, node: Node, labels: dict[str, str]) -> Node:
    """Set labels of a Node."""
    body = {"metadata": {"labels": labels, **identity(node)}}
    return await transport.patch(node_path(node.metadata.name), body, Node)


async def update_node(
    transport: Transport, node: Node, change: Callable[[Node], dict[str, Any] | None]
) -> Node | None:
    """Change a Node that other clients change too. Returns the changed Node, or None without a change.

    ``change`` computes the patch from a version of the Node (None = no change), and the patch requires this
    version. After a conflict, the patch is computed again from a new read; after many conflicts, raises
    Conflict. Raises NotFound if the Node is gone or replaced, or another KubernetesError.
    """
    uid = node.metadata.uid
    for attempt in range(TRIES):
        body = change(node)
        if body is None:
            return None
        metadata = {**body.get("metadata", {}), "resourceVersion": node.metadata.resource_version}
        path = node_path(node.metadata.name)
        try:
            return await transport.patch(path, {**body, "metadata": metadata}, Node)
        except Conflict:
            if attempt == TRIES - 1:
                raise
        # Not for security: the jitter prevents further conflicts.
        await asyncio.sleep(PAUSE * (1 + random.random()))  # noqa: S311
        node = await transport.get(path, Node)
        if node.metadata.uid != uid:
            raise NotFound(404, "NotFound", f"node {node.metadata.name} was replaced by another node")
    raise AssertionError  # the last attempt returns or raises


def taints_patch(taints: Sequence[Taint]) -> list[dict[str, Any]] | None:
    """The taints in a merge patch; None removes the field."""
    return [to_wire(taint) for taint in taints] or None


def add_taint(node: Node, taint: Taint) -> dict[str, Any] | None:
    """The patch that adds a taint, or replaces a taint of the same key and effect; None = no change."""
    same = [old for old in node.spec.taints if (old.key, old.effect) == (taint.key, taint.effect)]
    if any(old.value == taint.value for old in same):
        return None
    if not same:
        return {"spec": {"taints": taints_patch([*node.spec.taints, taint])}}
    replaced = [taint if old in same else old for old in node.spec.taints]
    return {"spec": {"taints": taints_patch(replaced)}}


def remove_taints(node: Node, drop: Callable[[Taint], bool]) -> dict[str, Any] | None:
    """The patch that removes taints from a Node; None = no change."""
    kept = [taint for taint in node.spec.taints if not drop(taint)]
    if len(kept) == len(node.spec.taints):
        return None
    return {"spec": {"taints": taints_patch(kept)}}


def version_of(node: Node) -> int:
    """A Node's resource version as a number; 0 if it isn't one."""
    version = node.metadata.resource_version
    return int(version) if version.isdigit() else 0


async def each(items: Iterable[T], work: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Call ``work`` for all items, for ``at_once`` items at the same time."""
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())


def evenly(nodes: Sequence[Node], max_size: int) -> list[Sequence[Node]]:
    """Split Nodes into parts of similar size, at most ``max_size``. Without Nodes, returns one empty part."""
    parts = max(1, -(-len(nodes) // max_size))
    ends = [len(nodes) * part // parts for part in range(parts + 1)]
    return [nodes[start:end] for start, end in pairwise(ends)]


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_LENGTH = 32768  # characters of all names and values


def trim_annotations(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """All annotations except kubectl's; if they are too long, only the shortest.

    An object may have 256 KiB of annotations (TotalAnnotationSizeLimitB in
    k8s.io/apimachinery/pkg/api/validation), and ``kubectl apply`` stores the whole manifest in one.
    """
    length = sum(len(name) + len(text) for name, text in annotations.items())
    if LAST_APPLIED not in annotations and length <= MAX_ANNOTATIONS_LENGTH:
        return annotations
    found: dict[str, str] = {}
    room = MAX_ANNOTATIONS_LENGTH
    for name, text in sorted(annotations.items(), key=lambda item: (len(item[0]) + len(item[1]), item[0])):
        if name == LAST_APPLIED:
            continue
        room -= len(name) + len(text)
        if room < 0:
            break
        found[name] = text
    return found
