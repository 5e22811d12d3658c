"""The node lifecycle controller: deletes Nodes without a machine, and taints Nodes whose machine is off.

A Ready Node needs no request to the cloud. A Node that isn't Ready is checked with increasing intervals. The
controller deletes the Node only if the breaker permits the deletion, two direct requests at different times
report that the machine doesn't exist, and the Node is still the same object. Nodes of another cloud are never
deleted, nor, by default, Nodes without a provider ID.

A Node under deletion isn't checked, because it only waits for its finalizers. A refused deletion or taint is
attempted six times in the first hour, and twice in each later hour.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ccm.clock import loop_time
from ccm.cloud import CloudError, Instance, InstanceNotFound, Instances, NotOurs
from ccm.cloud.cloud import MASS_DELETION_BREAKER_OFF
from ccm.controllers.mass_deletion_breaker import MassDeletionBreaker, Verdict
from ccm.controllers.names import OUT_OF_SERVICE_TAINT, SHUTDOWN_TAINT, UNINITIALIZED_TAINT
from ccm.controllers.nodes import (
    add_taint,
    each,
    has_taint,
    is_ready,
    node_path,
    remove_taints,
    report,
    update_node,
    view_of,
)
from ccm.kube.backoff import EffectBackoff, next_retry
from ccm.kube.errors import Conflict, ConnectionFailed, KubernetesError, NotFound
from ccm.kube.events import Recorder
from ccm.kube.informer import Informer
from ccm.kube.objects import Node, Taint, reference_to
from ccm.kube.protocol import Transport

COMPONENT = "cloud-node-lifecycle-controller"
SHUTDOWN = Taint(key=SHUTDOWN_TAINT, effect="NoSchedule")
# Kubernetes uses only the key. The value distinguishes our taint from a manual taint ("nodeshutdown").
OUT_OF_SERVICE = Taint(key=OUT_OF_SERVICE_TAINT, value="shut-down-in-cloud", effect="NoExecute")
CENSUS_AGE = 30.0  # seconds: maximum age of the list for the breaker
RETRY_CENSUS_AGE = 600.0  # seconds: the same for Nodes whose deletion was tried before
_PATIENCE = 300.0  # seconds of failures before the controller is unhealthy

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NodeLifecycleOptions:
    """Options of the node lifecycle controller."""

    monitor_period: float = 5.0  # `--node-monitor-period`: seconds between two runs
    # maximum seconds between two checks of a Node that isn't Ready
    longest_interval: float = 60.0
    # number of direct requests that must report a missing machine before its Node is deleted
    confirmations: int = 2
    # like upstream, also delete Nodes without a provider ID
    delete_without_provider_id: bool = False
    out_of_service: bool = False  # also set the taint that releases the volumes and Pods of a shut-down Node
    concurrent_syncs: int = 1  # `--concurrent-node-lifecycle-syncs`: maximum number of concurrent taints
    # wait if most machines are missing, and stop if all machines are missing
    mass_deletion_breaker: bool = True


class NodeLifecycleMetrics:
    """The metrics of upstream's controller, and one of our own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.duration = Histogram(
            "cloud_node_lifecycle_controller_monitor_nodes_duration_seconds",
            "Duration in seconds of one run over all nodes.",
            buckets=[0.001 * 2**power for power in range(15)],
            registry=registry,
        )
        self.calls = Counter(
            "cloud_node_lifecycle_controller_cloud_provider_calls_total",
            "Requests to the cloud provider by operation and result.",
            ["operation", "result"],
            registry=registry,
        )
        self.paused = Gauge(
            "ccm_node_lifecycle_deletions_paused",
            "1 if the CCM pauses the deletion of Nodes because most servers are missing; otherwise 0.",
            registry=registry,
        )


@dataclass(slots=True)
class _Suspect:
    """A Node that is not Ready."""

    uid: str  # UID of the Node, because a new Node with this name starts from zero
    due: float  # time of the next check
    interval: float  # seconds until the check after that
    absent: bool = False  # whether the machine was missing in the last check
    denials: int = 0  # number of direct requests that reported a missing machine
    # seconds until the next deletion if the Node still exists; 0 = no deletion was attempted
    retry: float = 0.0

    @property
    def is_denied(self) -> bool:
        """Whether the last direct request reported that the machine doesn't exist."""
        return self.absent and (self.denials > 0 or self.retry > 0)


class NodeLifecycleController:
    """Deletes Nodes without a machine and taints Nodes whose machine is off, while ``run`` is running."""

    def __init__(
        self,
        instances: Instances,
        transport: Transport,
        nodes: Informer[Node],
        recorder: Recorder,
        options: NodeLifecycleOptions | None = None,
        *,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._instances = instances
        self._transport = transport
        self._nodes = nodes
        self._recorder = recorder
        self._options = options or NodeLifecycleOptions()
        self._metrics = NodeLifecycleMetrics(registry or CollectorRegistry())
        self._breaker = MassDeletionBreaker(on=self._options.mass_deletion_breaker)
        self._suspects: dict[str, _Suspect] = {}
        self._writes = EffectBackoff()
        self._failing_since: float | None = None

    async def run(self) -> None:
        """Run the controller until cancelled."""
        # Unlike upstream, wait: with an incomplete list of Nodes, the cluster would seem to be small.
        await self._nodes.synced.wait()
        while True:
            await self.monitor()
            await asyncio.sleep(self._options.monitor_period)

    def healthy(self) -> str | None:
        """An error message, or None if the controller is healthy."""
        if not self._nodes.synced.is_set():
            return "the list of nodes is not complete yet"
        if self._breaker.verdict is Verdict.STOP:
            return "the token's project has no machine of any Node, so no Node is deleted. Check the token"
        silence = 0.0 if self._failing_since is None else loop_time() - self._failing_since
        if silence < _PATIENCE:
            return None
        return (
            f"for {silence:.0f} s, the controller has failed to check the machines of Nodes that aren't Ready"
        )

    async def monitor(self) -> None:
        """Check every Node once."""
        started = loop_time()
        due: list[Node] = []
        names: set[str] = set()
        uids: set[str] = set()
        for node in self._nodes.items():
            names.add(node.metadata.name)
            uids.add(node.metadata.uid)
            if is_ready(node):
                self._suspects.pop(node.metadata.name, None)
                if not self._is_foreign(node):
                    await self._write(node, "untaint", lambda fresh: remove_taints(fresh, is_our_taint))
            elif node.metadata.deletion_timestamp is not None:
                # The Node waits for its finalizers, so another deletion would have no effect.
                self._suspects.pop(node.metadata.name, None)
            elif self._is_due(node):
                due.append(node)
        self._suspects = {name: one for name, one in self._suspects.items() if name in names}
        self._writes.keep(uids)
        # If a direct GET reported a missing machine, send a direct GET again, because a list isn't proof.
        absent = [node for node in due if self._suspects[node.metadata.name].is_denied]
        absent += await self._examine([node for node in due if node not in absent])
        if absent:
            await self._remove(absent)
        elif not any(suspect.absent for suspect in self._suspects.values()):
            self._set_verdict(self._breaker.evaluate(total=0, absent=0, now=loop_time()))
        self._metrics.duration.observe(loop_time() - started)

    def _is_foreign(self, node: Node) -> bool:
        return bool(node.spec.provider_id) and not self._instances.owns(node.spec.provider_id)

    def _is_due(self, node: Node) -> bool:
        name, uid = node.metadata.name, node.metadata.uid
        if self._is_foreign(node):
            return False
        suspect = self._suspects.get(name)
        if suspect is None or suspect.uid != uid:
            self._suspects[name] = _Suspect(uid, loop_time(), self._options.monitor_period)
            return True
        return suspect.due <= loop_time()

    async def _examine(self, nodes: Sequence[Node]) -> list[Node]:
        """Check Nodes that aren't Ready, and return the Nodes whose machines seem to be gone."""
        if not nodes:
            return []
        answers = await self._ask(nodes)
        absent: list[Node] = []
        to_mark: list[tuple[Node, Instance]] = []
        for node in nodes:
            suspect = self._suspects[node.metadata.name]
            answer = answers.get(node.metadata.name)
            suspect.absent = isinstance(answer, InstanceNotFound) and self._may_delete(node)
            if suspect.absent:
                absent.append(node)
                continue
            suspect.denials = 0
            self._look_later(suspect)
            if isinstance(answer, Instance):
                suspect.retry = 0.0
                to_mark.append((node, answer))
        await each(to_mark, self._mark, at_once=self._options.concurrent_syncs)
        return absent

    def _may_delete(self, node: Node) -> bool:
        """By default, False without a provider ID, because another cloud may initialize the Node later."""
        return bool(node.spec.provider_id) or self._options.delete_without_provider_id

    def _look_later(self, suspect: _Suspect) -> None:
        suspect.due = loop_time() + suspect.interval
        suspect.interval = min(suspect.interval * 2, self._options.longest_interval)

    async def _ask(self, nodes: Sequence[Node]) -> dict[str, Instance | CloudError]:
        """The cloud's data about Nodes from a recent list. Logs errors."""
        # A new Node needs no shutdown taint, because its taint *uninitialized* already repels all Pods.
        views = [view_of(node, asks_power=not has_taint(node, UNINITIALIZED_TAINT)) for node in nodes]
        answers: dict[str, Instance | CloudError]
        try:
            answers = dict(await self._instances.list(views, accepted_age=self._options.monitor_period))
        except CloudError as error:
            answers = dict.fromkeys((view.name for view in views), error)
            self._failing_since = self._failing_since or loop_time()
        else:
            self._failing_since = None
        references = {node.metadata.name: reference_to(node) for node in nodes}
        for name, answer in answers.items():
            self._count("instance_exists", answer)
            if isinstance(answer, Instance):
                # One response contains both results, but upstream's metrics count two requests.
                self._count("instance_shutdown", answer)
            if isinstance(answer, CloudError) and not isinstance(answer, InstanceNotFound | NotOurs):
                log.error("node_not_checked", node=name, why=_why_unknown(name, answer))
                report(self._recorder, references[name], answer.notices)
        return answers

    def _count(self, operation: str, answer: Instance | CloudError) -> None:
        self._metrics.calls.labels(operation, _result(answer)).inc()

    async def _is_confirmed(self, node: Node, suspect: _Suspect) -> bool:
        """Read one machine directly. Returns True after enough responses that it doesn't exist."""
        name = node.metadata.name
        try:
            await self._instances.get(view_of(node), accepted_age=0)
        except InstanceNotFound as error:
            report(self._recorder, reference_to(node), error.notices)
            suspect.denials += 1
            suspect.interval = self._options.monitor_period
            suspect.due = loop_time() + suspect.interval
            self._count("instance_exists", error)
        except CloudError as error:
            # The request failed, so it is unknown whether the machine exists. Count from zero again.
            suspect.denials, suspect.absent = 0, False
            self._look_later(suspect)
            report(self._recorder, reference_to(node), error.notices)
            self._count("instance_exists", error)
            log.error("node_not_checked", node=name, why=_why_unknown(name, error))  # noqa: TRY400
        else:
            suspect.denials, suspect.absent, suspect.retry = 0, False, 0.0
            self._look_later(suspect)
        return suspect.denials >= max(1, self._options.confirmations)

    async def _mark(self, found: tuple[Node, Instance]) -> None:
        """Taint a Node whose machine is off. The taint stays until the Node is Ready again."""
        node, instance = found
        if not instance.shut_down:
            return
        await self._write(node, "taint", lambda fresh: add_taint(fresh, SHUTDOWN))
        if self._options.out_of_service and free_volumes(node) and await self._is_off(node):
            await self._write(node, "free volumes", free_volumes)

    async def _is_off(self, node: Node) -> bool:
        """Read the machine directly, because volumes of a running machine must not be attached elsewhere."""
        try:
            instance = await self._instances.get(view_of(node, asks_power=True), accepted_age=0)
        except CloudError as error:
            self._count("instance_shutdown", error)
            log.error("node_not_checked", node=node.metadata.name, why=str(error))  # noqa: TRY400
            return False
        self._count("instance_shutdown", instance)
        return instance.shut_down

    async def _write(self, node: Node, what: str, change: Callable[[Node], dict[str, Any] | None]) -> None:
        """Change a Node. Logs errors. After an error, or without effect, delays the next attempt."""
        name, uid = node.metadata.name, node.metadata.uid
        if change(node) is None:
            self._writes.forget(uid, what)
        elif self._writes.wait(uid, what, loop_time()) == 0:
            try:
                await update_node(self._transport, node, change)
            except KubernetesError as error:
                log.error("node_not_changed", node=name, what=what, why=str(error))  # noqa: TRY400
                if isinstance(error, ConnectionFailed):
                    return  # not a refusal, so retry without delay
            self._writes.tried(uid, what, loop_time())

    async def _remove(self, nodes: Sequence[Node]) -> None:
        """Delete Nodes, if the breaker allows the deletion and direct requests confirm it."""
        tried = all(self._suspects[node.metadata.name].retry for node in nodes)
        verdict = await self._census(RETRY_CENSUS_AGE if tried else CENSUS_AGE)
        self._set_verdict(verdict)
        for node in nodes:
            suspect = self._suspects[node.metadata.name]
            if verdict is not Verdict.DELETE:
                self._look_later(suspect)
                self._recorder.event(reference_to(node), "Warning", "NodeDeletionPaused", _PAUSED[verdict])
            elif await self._is_confirmed(node, suspect):
                await self._delete(node, suspect)

    async def _census(self, age: float) -> Verdict:
        """Count the missing machines in a list of this maximum age, and evaluate the breaker."""
        ours = [node for node in self._nodes.items() if not self._is_foreign(node) and self._may_delete(node)]
        try:
            answers = await self._instances.list([view_of(node) for node in ours], accepted_age=age)
        except CloudError as error:
            log.error("census_failed", why=str(error))  # noqa: TRY400 - foreseen, no stack needed
            return Verdict.WAIT
        absent = sum(isinstance(answer, InstanceNotFound) for answer in answers.values())
        return self._breaker.evaluate(total=len(ours), absent=absent, now=loop_time())

    def _set_verdict(self, verdict: Verdict) -> None:
        self._metrics.paused.set(0 if verdict is Verdict.DELETE else 1)

    async def _delete(self, node: Node, suspect: _Suspect) -> None:
        name = node.metadata.name
        about = reference_to(node)
        message = f"Deleting node {name} because it does not exist in the cloud provider"
        self._recorder.event(about, "Normal", "DeletingNode", message)
        try:
            await self._transport.delete(node_path(name), uid=node.metadata.uid or None)
        except NotFound:
            log.info("node_vanished", node=name)
        except Conflict:
            log.info("node_replaced", node=name)
        except KubernetesError as error:
            message = f"Failed deleting node {name}: {error}"
            self._recorder.event(about, "Warning", "DeletingNodeFailed", message)
            if isinstance(error, ConnectionFailed):
                self._look_later(suspect)
                return
        # A deleted Node loses its entry later. If the Node stays, retry with an increasing delay.
        suspect.retry = next_retry(suspect.retry)
        suspect.due = loop_time() + suspect.retry


_PAUSED = {
    Verdict.WAIT: "The machine of this Node does not exist. The CCM doesn't delete the Node yet, "
    "because the machines of most other Nodes don't exist either, or the CCM could not check them",
    Verdict.STOP: "This project has no machine for any of the cluster's Nodes. The token may belong to "
    "another project, so the CCM deletes no Node. If you deleted the machines, delete the Nodes yourself, "
    f"or run the CCM with {MASS_DELETION_BREAKER_OFF}",
}


def _why_unknown(name: str, error: CloudError) -> str:
    return f"error checking if node {name} exists: {error}"


def free_volumes(node: Node) -> dict[str, Any] | None:
    """The patch with the taint that releases a Node's volumes; None = the Node has the taint."""
    return None if has_taint(node, OUT_OF_SERVICE_TAINT) else add_taint(node, OUT_OF_SERVICE)


def is_our_taint(taint: Taint) -> bool:
    """Whether this controller set the taint because the machine was off."""
    return (taint.key, taint.effect) == (SHUTDOWN.key, SHUTDOWN.effect) or taint == OUT_OF_SERVICE


def _result(answer: Instance | CloudError) -> str:
    if isinstance(answer, Instance):
        return "success"
    return "instance_not_found" if isinstance(answer, InstanceNotFound) else "error"
