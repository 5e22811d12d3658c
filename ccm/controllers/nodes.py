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
PAUSE = 0.05  # seconds, and up to as much again


def node_path(name: str, subresource: str = "") -> str:
    """A Node's path in the API."""
    return f"/api/v1/nodes/{name}" + (f"/{subresource}" if subresource else "")


def view_of(node: Node, *, asks_power: bool = False) -> NodeView:
    """What a cloud gets to see of a Node; ``asks_power``: see :class:`~ccm.cloud.NodeView`."""
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
    """What is kept in memory of a Node: all that we name of it, and its annotations up to a bound."""
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
    """Whether a Node's condition Ready is True; no condition counts as unknown."""
    return any(
        condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions
    )


def report(recorder: Recorder, about: ObjectReference, notices: Iterable[Notice]) -> None:
    """Make Events of a cloud's notices."""
    for notice in notices:
        recorder.event(about, "Warning" if notice.warning else "Normal", notice.reason, notice.message)


def identity(node: Node) -> dict[str, str]:
    """What goes into a patch's metadata so that it is refused if another Node has the name by now."""
    return {"uid": node.metadata.uid} if node.metadata.uid else {}


async def patch_addresses(transport: Transport, node: Node, addresses: Sequence[Address]) -> Node | None:
    """Give a Node exactly these addresses, in this order; None = it has them already.

    A JSON merge patch replaces the whole list. Kubernetes' strategic merge patch merges it by type, which
    corrupts lists with two addresses of one type.
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
    """Change a Node that others change as well; returns the changed Node, or None if nothing was to be done.

    The patch has the version from which ``change`` computed it (None = nothing to do). On a conflict, it is
    computed again from a new read; after many, raises Conflict. Raises NotFound if the Node is gone or
    another one has its name, and another KubernetesError if the API server refused or failed.
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
        # Not security: jitter keeps two writers apart.
        await asyncio.sleep(PAUSE * (1 + random.random()))  # noqa: S311
        node = await transport.get(path, Node)
        if node.metadata.uid != uid:
            raise NotFound(404, "NotFound", f"node {node.metadata.name} was replaced by another node")
    raise AssertionError  # the last attempt returns or raises


def taints_patch(taints: Sequence[Taint]) -> list[dict[str, Any]] | None:
    """Taints as a merge patch has them; None removes the field."""
    return [to_wire(taint) for taint in taints] or None


def add_taint(node: Node, taint: Taint) -> dict[str, Any] | None:
    """The patch that gives a Node a taint; one of the same key and effect is replaced in place."""
    same = [old for old in node.spec.taints if (old.key, old.effect) == (taint.key, taint.effect)]
    if any(old.value == taint.value for old in same):
        return None
    if not same:
        return {"spec": {"taints": taints_patch([*node.spec.taints, taint])}}
    replaced = [taint if old in same else old for old in node.spec.taints]
    return {"spec": {"taints": taints_patch(replaced)}}


def remove_taints(node: Node, drop: Callable[[Taint], bool]) -> dict[str, Any] | None:
    """The patch that takes taints from a Node."""
    kept = [taint for taint in node.spec.taints if not drop(taint)]
    if len(kept) == len(node.spec.taints):
        return None
    return {"spec": {"taints": taints_patch(kept)}}


def version_of(node: Node) -> int:
    """A Node's resource version as a number; 0 if it isn't one."""
    version = node.metadata.resource_version
    return int(version) if version.isdigit() else 0


async def each(items: Iterable[T], work: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Work on all items, on so many of them at the same time."""
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())


def evenly(nodes: Sequence[Node], max_size: int) -> list[Sequence[Node]]:
    """Nodes in parts of nearly the same size, at most ``max_size``; one empty part if there are none."""
    parts = max(1, -(-len(nodes) // max_size))
    ends = [len(nodes) * part // parts for part in range(parts + 1)]
    return [nodes[start:end] for start, end in pairwise(ends)]


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_LENGTH = 32768  # characters of all names and values


def trim_annotations(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """All annotations but kubectl's; where they are too many, the shortest.

    An object may have 256 KiB of them (Kubernetes' TotalAnnotationSizeLimitB in
    k8s.io/apimachinery/pkg/api/validation), and ``kubectl apply`` puts the whole manifest into one.
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
