"""The node controller: initializes new Nodes from the cloud, and updates existing Nodes.

A new Node has the taint *uninitialized*, so no ordinary Pod runs there. The controller finds the Node's
machine and writes the addresses into the status. Then one patch writes the provider ID and the labels, and
removes the taint. So a Node without the taint is complete.

A second loop checks all Nodes every few minutes with one list of the machines, and repairs addresses and
labels. It also initializes Nodes whose taint was removed by hand before they had a provider ID.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Histogram

from ccm.clock import loop_time
from ccm.cloud import CloudError, Instance, InstanceNotFound, Instances, Notice, NotOurs
from ccm.controllers.label_changes import copied_labels, followed, labels_for, promoted_labels
from ccm.controllers.names import UNINITIALIZED_TAINT
from ccm.controllers.node_addresses import ProvidedNodeIpInvalid, wanted_addresses
from ccm.controllers.nodes import (
    addresses_of,
    each,
    evenly,
    has_taint,
    is_ready,
    patch_addresses,
    patch_labels,
    remove_taints,
    report,
    update_node,
    version_of,
    view_of,
)
from ccm.errors import CcmError
from ccm.kube.backoff import EffectBackoff, KeyedBuckets, node_limiter
from ccm.kube.errors import Forbidden, Invalid, KubernetesError, NotFound
from ccm.kube.events import Recorder
from ccm.kube.informer import Informer
from ccm.kube.objects import Node, reference_to
from ccm.kube.protocol import Transport
from ccm.kube.queue import WorkQueue
from ccm.kube.reconciler import run_workers

COMPONENT = "cloud-node-controller"
QUEUE = "Nodes"
_PASSING = 3  # number of failures without an Event
# For a Node without a machine, each look sends a request with the highest priority, and agents change
# annotations of Nodes all day.
_LOOKS_AT_ONCE = 10
_LOOK_PERIOD = 60.0  # seconds
AT_ONCE = 500  # Nodes that one list of results refreshes; a limit, because the results need memory
MAX_RUNS = 3  # maximum number of runs with one list of machines
# Changes that an admission webhook may refuse or revert.
_INTRODUCTION, _ADDRESSES, _LABELS = "introduction", "addresses", "labels"
_BUCKETS = (1, 4, 16, 64, 256, 1024)

log = structlog.stdlib.get_logger(__name__)


class NodeNotInitialized(CcmError):
    """A Node could not be initialized. The Node keeps its taint, and the controller retries."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Options of the node controller."""

    concurrent_syncs: int = 1  # `--concurrent-node-syncs`
    concurrent_status_updates: int = 0  # `--concurrent-node-status-updates`; 0 = as many as syncs
    status_update_frequency: float = 300.0  # `--node-status-update-frequency`, seconds between two runs
    # Maximum age of the cloud's data, in seconds, after a failure, or for a Node that lost its taint before
    # it got a provider ID. For other new Nodes, the data is never older than the Node.
    accepted_age: float = 10.0
    # `--refresh-node-labels`: update all labels when a machine changes. Off, as upstream: type, zone and
    # region are set once, and later manual changes stay.
    refresh_labels: bool = False

    @property
    def status_workers(self) -> int:
        """The number of Nodes that are refreshed at the same time."""
        return self.concurrent_status_updates or self.concurrent_syncs


class NodeMetrics:
    """The metrics of upstream's node controller."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.taint_removal_delay = Histogram(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "Number of seconds after node creation when NodeController removed the cloud-provider taint of a "
            "single node.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.initial_sync_delay = Histogram(
            "node_controller_initial_node_sync_delay_seconds",
            "Number of seconds after node creation when NodeController finished the initial synchronization "
            "of a single node.",
            buckets=_BUCKETS,
            registry=registry,
        )


class NodeController:
    """Initializes new Nodes from the cloud, and updates existing Nodes, while ``run`` is running."""

    def __init__(
        self,
        instances: Instances,
        transport: Transport,
        nodes: Informer[Node],
        recorder: Recorder,
        options: NodeOptions | None = None,
        *,
        registry: CollectorRegistry | None = None,
        queue: WorkQueue | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.queue = WorkQueue(QUEUE, limiter=node_limiter()) if queue is None else queue
        self._instances = instances
        self._transport = transport
        self._nodes = nodes
        self._recorder = recorder
        self._options = options or NodeOptions()
        self._metrics = NodeMetrics(registry or CollectorRegistry())
        self._now = now
        self._status_failing_since: float | None = None
        self._copied: dict[str, dict[str, str]] = {}
        self._first_seen: dict[str, float] = {}
        self._written: dict[str, int] = {}
        self._writes = EffectBackoff()
        self._looks = KeyedBuckets(1 / _LOOK_PERIOD, _LOOKS_AT_ONCE)
        nodes.add_handler(self._on_node)

    async def run(self) -> None:
        """Run the controller until cancelled."""
        await self._nodes.synced.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._status_loop(), name="node-status")
            group.create_task(run_workers(self.queue, self.reconcile, self._options.concurrent_syncs))

    def healthy(self) -> str | None:
        """An error message, or None if the controller is healthy."""
        if not self._nodes.synced.is_set():
            return "the list of nodes is not complete yet"
        since = self._status_failing_since
        if since is None or loop_time() - since < 2 * self._options.status_update_frequency:
            return None
        return f"for {loop_time() - since:.0f} s, the controller has failed to list the machines"

    async def reconcile(self, name: str) -> float | None:
        """Reconcile a Node; returns seconds until a retry. Raises NodeNotInitialized or KubernetesError."""
        node = self._nodes.get(name)
        if node is None:
            return None
        if (wait := self._writes.wait(node.metadata.uid, _INTRODUCTION, loop_time())) > 0:
            return wait
        try:
            if has_taint(node, UNINITIALIZED_TAINT):
                # Skip a cached Node that is older than our last write.
                if version_of(node) >= self._written.get(name, 0):
                    await self._initialize(node)
            elif not node.spec.provider_id:
                await self._repair(node)
            elif self._instances.owns(node.spec.provider_id):
                await self._promote_labels(node)
        except NotFound:
            log.info("node_vanished", node=name)
        except (Forbidden, Invalid):
            self._writes.tried(node.metadata.uid, _INTRODUCTION, loop_time())
            raise
        return None

    async def _initialize(self, node: Node) -> None:
        name = node.metadata.name
        try:
            instance = await self._instances.get(view_of(node), accepted_age=self._accepted_age(name))
        except NotOurs as error:
            report(self._recorder, reference_to(node), error.notices)
            log.info("node_not_ours", node=name, provider_id=node.spec.provider_id)
            return
        except CloudError as error:
            self._explain_failure(node, error)
            raise NodeNotInitialized(f"failed to get instance metadata for node {name}: {error}") from error
        changed = await self._introduce(node, instance)
        if changed is not None:
            copy = self._nodes.get(name)
            if copy is not None and version_of(copy) < version_of(changed):
                # Skip the Node until the cache has this version.
                self._written[name] = version_of(changed)
            if has_taint(changed, UNINITIALIZED_TAINT):
                self._writes.tried(node.metadata.uid, _INTRODUCTION, loop_time())
                raise NodeNotInitialized(
                    f"the API server accepted the change to node {name}, but the change had no effect"
                )
            self._writes.forget(node.metadata.uid, _INTRODUCTION)
            self._observe_initialized(node)
            self._recorder.event(reference_to(node), "Normal", "Synced", "Node synced successfully")

    def _accepted_age(self, name: str) -> float:
        """The maximum age of the cloud's data about a new Node, in seconds.

        Data older than the Node may describe a former machine with this name, and the provider ID can't be
        changed later. Data newer than the Node is valid even after a long wait in the queue, so one list
        serves all Nodes that appear together. After a failure, only new data helps.
        """
        waited = loop_time() - self._first_seen.get(name, loop_time())
        return min(waited, self._options.accepted_age) if self.queue.failures(name) else waited

    async def _repair(self, node: Node) -> None:
        """Initialize a Node that lost its taint before it got a provider ID, if its machine exists."""
        try:
            instance = await self._instances.get(view_of(node), accepted_age=self._options.accepted_age)
        except (NotOurs, InstanceNotFound):
            await self._promote_labels(node)
            return
        if await self._introduce(node, instance) is not None:
            self._recorder.event(reference_to(node), "Normal", "Synced", "Node synced successfully")

    async def _introduce(self, node: Node, instance: Instance) -> Node | None:
        """Write the cloud's data to a Node, addresses first. Returns None if the rest needs no change."""
        report(self._recorder, reference_to(node), instance.notices)
        name = node.metadata.name
        if not (node.spec.provider_id or instance.provider_id):
            raise NodeNotInitialized(f"cloud provider does not set node provider ID for node {name}")
        try:
            addresses = wanted_addresses(node, instance.addresses)
        except ProvidedNodeIpInvalid as error:
            self._explain_mismatch(node, error)
            raise NodeNotInitialized(f"failed to get node modifiers from cloud provider: {error}") from error
        if instance.addresses:
            node = await patch_addresses(self._transport, node, addresses) or node
        changed = await update_node(self._transport, node, lambda fresh: introduction(fresh, instance))
        for label, why in labels_for(instance, node.metadata.labels).skipped.items():
            log.warning("label_skipped", node=name, label=label, why=why)
        return changed

    def _explain_failure(self, node: Node, error: CloudError) -> None:
        """Report why a Node keeps its taint. An error without notices is reported only if it lasts."""
        text = f"The CCM could not get the machine of this Node from the cloud provider: {error}"
        lasting = [Notice("NodeNotInitialized", text)]
        passing = self.queue.failures(node.metadata.name) < _PASSING
        report(self._recorder, reference_to(node), error.notices or ([] if passing else lasting))

    def _explain_mismatch(self, node: Node, error: ProvidedNodeIpInvalid) -> None:
        offered = ", ".join(f"{address.type} {address.address}" for address in error.offered) or "none"
        self._recorder.event(
            reference_to(node),
            "Warning",
            "ProvidedNodeIPInvalid",
            f"The kubelet runs with --node-ip={error.provided}, but the machine has only these "
            f"addresses: {offered}. Start the kubelet with one of these addresses, or attach the machine "
            "to the network that the cloud provider uses.",
        )

    def _explain_absent_machine(self, node: Node) -> None:
        text = (
            f"The kubelet is Ready, but this Node's machine {node.spec.provider_id} no longer exists. A new "
            "machine with the same name probably replaced the old machine. The Node still has the old "
            "machine's addresses, which may now belong to another machine. To register a new Node, delete "
            "this Node and restart the kubelet on the new machine"
        )
        self._recorder.event(reference_to(node), "Warning", "MachineNotFound", text)

    async def _promote_labels(self, node: Node) -> None:
        labels = promoted_labels(node.metadata.labels)
        if labels:
            await patch_labels(self._transport, node, labels)

    def _observe_initialized(self, node: Node) -> None:
        created = node.metadata.creation_timestamp
        if created is not None:
            delay = max(0.0, (self._now() - created).total_seconds())
            self._metrics.taint_removal_delay.observe(delay)
            self._metrics.initial_sync_delay.observe(delay)

    async def _status_loop(self) -> None:
        while True:
            await self.refresh_all()
            await asyncio.sleep(self._options.status_update_frequency)

    async def refresh_all(self) -> None:
        """Refresh every initialized Node once, with one list of machines."""
        nodes = [node for node in self._nodes.items() if self._is_ours_to_refresh(node)]
        started = loop_time()
        for some in evenly(nodes, AT_ONCE):
            # All parts accept the list of the first part: a list from this run is new enough.
            age = accepted_age(len(nodes), self._options.status_update_frequency) + loop_time() - started
            try:
                answers = await self._instances.list([view_of(node) for node in some], accepted_age=age)
            except CloudError as error:
                self._status_failing_since = self._status_failing_since or loop_time()
                log.error("nodes_not_refreshed", error=str(error))  # noqa: TRY400 - expected, no stack trace
                return
            refresh = partial(self._refresh, answers)
            await each(some, refresh, at_once=self._options.status_workers)
            await asyncio.sleep(0)
        self._status_failing_since = None

    def _is_ours_to_refresh(self, node: Node) -> bool:
        provider_id = node.spec.provider_id
        if has_taint(node, UNINITIALIZED_TAINT) or node.metadata.deletion_timestamp is not None:
            return False
        return not provider_id or self._instances.owns(provider_id)

    async def _refresh(self, answers: Mapping[str, Instance | CloudError], node: Node) -> None:
        """Refresh one Node. An error with this Node must not affect other Nodes."""
        name = node.metadata.name
        answer = answers.get(name)
        if not isinstance(answer, Instance):
            log.info("node_not_refreshed", node=name, why=str(answer))
            witness = any(isinstance(reply, Instance) for reply in answers.values())
            if isinstance(answer, InstanceNotFound) and node.spec.provider_id and witness and is_ready(node):
                self._explain_absent_machine(node)
            return
        if not node.spec.provider_id:
            self.queue.add(name)
            return
        try:
            if answer.addresses:
                wanted = tuple(wanted_addresses(node, answer.addresses))
                if self._may_write(node, _ADDRESSES, None if wanted == addresses_of(node) else wanted):
                    await patch_addresses(self._transport, node, wanted)
        except ProvidedNodeIpInvalid as error:
            self._explain_mismatch(node, error)
            log.warning("addresses_not_refreshed", node=name, why=str(error))
        except KubernetesError as error:
            log.error(  # noqa: TRY400 - expected, no stack trace
                "node_not_refreshed",
                node=name,
                why=f'Failed to update node addresses for node "{name}": {error}',
            )
        await self._refresh_labels(node, answer if self._options.refresh_labels else followed(answer))

    def _may_write(self, node: Node, what: str, wanted: object) -> bool:
        """Whether to write ``wanted`` now; None = no change is needed. Writes without effect are delayed."""
        uid, now = node.metadata.uid, loop_time()
        if wanted is None:
            self._writes.forget(uid, what)
        elif self._writes.wait(uid, what, now, wanted) == 0:
            self._writes.tried(uid, what, now, wanted)
            return True
        return False

    async def _refresh_labels(self, node: Node, instance: Instance) -> None:
        present, uid = node.metadata.labels, node.metadata.uid
        labels = dict(labels_for(instance, present, self._copied.get(uid)).set)
        try:
            if self._may_write(node, _LABELS, labels or None):
                await patch_labels(self._transport, node, labels)
            elif labels:
                return
        except KubernetesError as error:
            log.error("labels_not_refreshed", node=node.metadata.name, why=str(error))  # noqa: TRY400
        else:
            self._copied[uid] = copied_labels(instance, {**present, **labels})

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        self._note_first_sight(old, new)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._copied.pop(old.metadata.uid, None)
            for what in (_INTRODUCTION, _ADDRESSES, _LABELS):
                self._writes.forget(old.metadata.uid, what)
        if new is None:
            name = old.metadata.name if old else ""
            self.queue.forget(name)
            self._looks.forget(name)
        elif old is None or _relevant(old) != _relevant(new):
            self._look(new)
        elif has_taint(new, UNINITIALIZED_TAINT) and not self.queue.failures(new.metadata.name):
            # The last look changed nothing. Failed Nodes are retried by the backoff, not by heartbeats.
            self._look(new)

    def _look(self, node: Node) -> None:
        """Queue a changed Node. If the look may send a request to the cloud, it is rate-limited."""
        name = node.metadata.name
        if node.spec.provider_id and not has_taint(node, UNINITIALIZED_TAINT):
            self._looks.forget(name)
            self.queue.add(name)
        elif self._looks.take(name, loop_time()):
            self.queue.add(name)
        else:
            self.queue.add_after(name, _LOOK_PERIOD)

    def _note_first_sight(self, old: Node | None, new: Node | None) -> None:
        is_new = new is not None and has_taint(new, UNINITIALIZED_TAINT)
        if old is not None and not (is_new and new is not None and new.metadata.uid == old.metadata.uid):
            self._first_seen.pop(old.metadata.name, None)
            self._written.pop(old.metadata.name, None)
        if is_new and new is not None:
            self._first_seen.setdefault(new.metadata.name, loop_time())


def accepted_age(nodes: int, frequency: float) -> float:
    """Maximum age of a list of machines, in seconds, if Nodes are refreshed every ``frequency`` seconds.

    A list of a thousand machines needs 20 requests, and addresses of running machines rarely change. So in a
    large cluster, two or three runs use the same list.
    """
    runs = min(MAX_RUNS, -(-nodes // AT_ONCE)) or 1
    return frequency * (runs - 0.5)


def introduction(node: Node, instance: Instance) -> dict[str, Any] | None:
    """The patch that completes a Node: sets provider ID and labels, and removes the taint."""
    spec: dict[str, Any] = {} if node.spec.provider_id else {"providerID": instance.provider_id}
    if untaint := remove_taints(node, lambda taint: taint.key == UNINITIALIZED_TAINT):
        spec |= untaint["spec"]
    labels = dict(labels_for(instance, node.metadata.labels).set)
    parts = {"spec": spec, "metadata": {"labels": labels} if labels else {}}
    return {name: part for name, part in parts.items() if part} or None


def _relevant(node: Node) -> tuple[object, ...]:
    """The fields that the controller uses. Heartbeats don't change them."""
    metadata = node.metadata
    return metadata.uid, metadata.labels, metadata.annotations, node.spec.provider_id, node.spec.taints
