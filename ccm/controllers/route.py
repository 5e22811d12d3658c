"""The route controller: a route in the cloud's network for the Pods of each Node.

The controller compares a recent state of the network with the Nodes. If a change is necessary, the controller
reads the network again, plans again, and applies the plan: first deletions, then creations, one after the
other. A Node's condition NetworkUnavailable shows whether the Node has all its routes.

The controller runs periodically, and when a Node is added, is deleted, or changes its CIDRs or addresses.
After failures, it retries with increasing delays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from ccm.clock import loop_time
from ccm.cloud import (
    INTERNAL_IP,
    AccessDenied,
    CloudBusy,
    CloudError,
    CloudUnavailable,
    Machine,
    NormalizesProviderIds,
    QuotaExhausted,
    Route,
    Routes,
    RouteTable,
)
from ccm.cloud.cloud import MASS_DELETION_BREAKER_OFF
from ccm.controllers.nodes import identity, node_path, report
from ccm.controllers.route_plan import (
    Cidr,
    RouteNode,
    RoutePlan,
    RouteSpec,
    canonical,
    confirmed,
    plan_routes,
)
from ccm.errors import CcmError, ConfigurationError
from ccm.ip import parse_network
from ccm.kube.backoff import TokenBucket, slow_limiter
from ccm.kube.errors import KubernetesError, NotFound
from ccm.kube.events import Recorder, timestamp
from ccm.kube.informer import Informer
from ccm.kube.objects import Node, ObjectReference, reference_to
from ccm.kube.protocol import STRATEGIC_MERGE_PATCH, Transport
from ccm.kube.queue import WorkQueue
from ccm.kube.reconciler import run_workers

COMPONENT = "route_controller"
QUEUE = "Routes"
KEY = "routes"
NEARLY_FULL = 0.9
DISPUTE = 3600.0  # seconds for which the controller doesn't replace a recreated route again
TOGETHER = 0.5  # seconds during which changes of Nodes are combined into one run
_NOT_SEEN = "the CCM can't read the machines of most Nodes, or can't read all machines in the network"
# Default object for Events about the network as a whole.
_KUBE_SYSTEM = ObjectReference(api_version="v1", kind="Namespace", name="kube-system")

log = structlog.stdlib.get_logger(__name__)


class RoutesNotReconciled(CcmError):
    """Some routes could not be created or deleted."""


@dataclass(slots=True)
class _Outcome:
    """The errors of one run."""

    # by Node, the reason why routes are missing
    failed: dict[str, str] = field(default_factory=dict[str, str])
    # messages about routes that were not deleted and conditions that were not written
    others: list[str] = field(default_factory=list[str])
    # the first two errors that would affect any other change too
    obstacles: list[CloudError] = field(default_factory=list[CloudError])

    def note(self, error: CloudError) -> None:
        """Record the error of a change."""
        of_all = isinstance(error, AccessDenied | CloudBusy | CloudUnavailable | QuotaExhausted)
        if of_all and len(self.obstacles) < 2:
            self.obstacles.append(error)

    def check(self) -> None:
        """Raise CloudUnavailable after two errors, because all further changes would wait and fail, too."""
        if len(self.obstacles) > 1:
            raise CloudUnavailable(
                f"the CCM did not try to create this route, because other routes failed: {self.obstacles[-1]}"
            )


class RouteController:
    """Keeps a route for the Pods of each Node; ``about`` is the object of Events without a Node."""

    def __init__(
        self,
        routes: Routes,
        transport: Transport,
        nodes: Informer[Node],
        recorder: Recorder,
        options: RouteOptions,
        *,
        registry: CollectorRegistry | None = None,
        queue: WorkQueue | None = None,
        about: ObjectReference = _KUBE_SYSTEM,
    ) -> None:
        # Not `or`, because an empty queue is false.
        self.queue = WorkQueue(QUEUE, limiter=slow_limiter()) if queue is None else queue
        self._routes = routes
        self._transport = transport
        self._nodes = nodes
        self._recorder = recorder
        self._options = options
        self._about = about
        self._explained: set[str] = set()
        self._nodes_changed = False
        self._former: dict[tuple[str, str], RouteNode] = {}
        self._disputed: dict[Route, float] = {}
        # A new cluster gets a few runs quickly. A constantly changing cluster gets one run in ten seconds.
        self._pace = TokenBucket(rate=0.1, burst=3)
        self._looks = TokenBucket(rate=1 / 60, burst=10)
        self._due = 0.0
        self._failing_since: float | None = None
        self._registry = registry or CollectorRegistry()
        self._syncs = Counter(
            "route_controller_route_sync_total",
            "A metric counting the amount of times routes have been synced with the cloud provider.",
            ["trigger", "outcome"],
            registry=self._registry,
        )
        self._paused = Gauge(
            "ccm_route_deletions_paused",
            "The number of routes that the CCM doesn't delete, because it can't read most servers.",
            registry=self._registry,
        )
        self._held_back = 0
        nodes.add_handler(self._on_node)

    async def run(self) -> None:
        """Run the controller until cancelled."""
        await self._nodes.synced.wait()
        self.queue.add(KEY)
        await run_workers(self.queue, self._reconcile_and_return)

    def healthy(self) -> str | None:
        """An error message, or None if the controller is healthy."""
        if self._held_back:
            return f"{self._held_back} routes are not deleted, because {_NOT_SEEN}"
        if self._failing_since is None or loop_time() - self._failing_since < 600:
            return None
        return f"for {loop_time() - self._failing_since:.0f} s, every attempt to reconcile routes has failed"

    async def _reconcile_and_return(self, _: str) -> float:
        started = loop_time()
        self._due = 0.0  # later changes of Nodes need another run
        try:
            await self.reconcile()
        except CloudError:
            self._failing_since = self._failing_since or started
            raise
        except RoutesNotReconciled:
            # A problem of one Node is reported on that Node; the controller itself is healthy.
            self._failing_since = None
            raise
        self._failing_since = None
        options = self._options
        period = options.resync_period if options.watch_based else options.reconciliation_period
        return max(0.1, period - (loop_time() - started))

    async def reconcile(self) -> RoutePlan:
        """Reconcile routes and conditions once. Returns the applied plan.

        Raises CloudError if the network could not be read and nothing was done, and RoutesNotReconciled if
        some routes could not be created or deleted.
        """
        trigger = "node_change" if self._nodes_changed and self._options.watch_based else "periodic"
        self._nodes_changed = False
        try:
            plan = await self._reconcile()
        except CcmError:
            self._syncs.labels(trigger, "error").inc()
            raise
        changed = plan.deletions or plan.creations
        self._syncs.labels(trigger, "changed" if changed else "noop").inc()
        return plan

    async def _reconcile(self) -> RoutePlan:
        nodes = self._route_nodes()
        plan, table = await self._plan(nodes)
        self._explain(plan, table)
        outcome = await self._apply(plan, table)
        await self._write_conditions(plan, outcome)
        if outcome.failed or outcome.others:
            problems = [f"{node}: {why}" for node, why in outcome.failed.items()] + outcome.others
            raise RoutesNotReconciled("; ".join(problems))
        return plan

    async def plan(self) -> RoutePlan:
        """Plan the changes without applying them, for `python -m ccm plan`."""
        table = await self._routes.list(accepted_age=0)
        return self._compare(self._route_nodes(), table)

    def _route_nodes(self) -> list[RouteNode]:
        nodes = [
            self._route_node(node)
            for node in sorted(self._nodes.items(), key=lambda node: node.metadata.name)
            if not node.spec.provider_id or self._routes.owns(node.spec.provider_id)
        ]
        for node in nodes:
            self._note(node)
        return nodes

    def _route_node(self, node: Node) -> RouteNode:
        name, cloud = node.spec.provider_id, self._routes
        return _route_node(node, cloud.normalized(name) if isinstance(cloud, NormalizesProviderIds) else name)

    def _note(self, node: RouteNode) -> None:
        if node.provider_id:
            self._former[node.provider_id, node.name] = node

    async def _plan(self, nodes: Sequence[RouteNode]) -> tuple[RoutePlan, RouteTable]:
        """Plan from a recent state of the network. If that requires changes, plan again from a new state."""
        started = loop_time()
        try:
            table = await self._routes.list(accepted_age=self._options.accepted_age)
            plan = self._compare(nodes, table)
            # Rate-limited, because a Node with a permanent problem may change all day.
            if plan.changes or (plan.problems and self._looks.take(started)):
                table = await self._routes.list(accepted_age=loop_time() - started)
                plan = self._compare(nodes, table)
        except CloudError as error:
            report(self._recorder, self._about, error.notices)
            raise
        if table.complete:
            # Forget machines outside the network: without an address, their routes can't be found.
            ours = confirmed(self._former.values(), table)
            self._former = {key: node for key, node in self._former.items() if node.provider_id in ours}
        return plan, table

    def _compare(self, nodes: Sequence[RouteNode], table: RouteTable) -> RoutePlan:
        options, now = self._options, loop_time()
        self._disputed = {route: at for route, at in self._disputed.items() if now - at < DISPUTE}
        return plan_routes(
            nodes,
            table,
            (*options.cluster_cidrs, *options.more_cidrs),
            self._former.values(),
            disputed=self._disputed,
            mass_deletion_breaker=options.mass_deletion_breaker,
        )

    async def _apply(self, plan: RoutePlan, table: RouteTable) -> _Outcome:
        outcome = _Outcome(
            {route_spec.node: route_spec.problem for route_spec in plan.specs if route_spec.problem}
        )
        for route in plan.deletions:
            try:
                outcome.check()
                await self._routes.delete(route)
                log.info("route_deleted", destination=route.destination, gateway=route.gateway)
                if self._foreign_machine(route, table) is not None:
                    self._disputed[route] = loop_time()
            except CloudError as error:
                outcome.note(error)
                outcome.others.append(
                    f"could not delete the route to {route.destination} via {route.gateway}: {error}"
                )
        for route_spec in plan.creations:
            if route_spec.route is not None:
                await self._create(route_spec, route_spec.route, outcome)
        return outcome

    async def _create(self, route_spec: RouteSpec, route: Route, outcome: _Outcome) -> None:
        started = loop_time()
        try:
            outcome.check()
            await self._routes.create(route)
            log.info(
                "route_created", node=route_spec.node, destination=route.destination, gateway=route.gateway
            )
        except CloudError as error:
            outcome.note(error)
            outcome.failed[route_spec.node] = str(error)
            self._report_failure(route_spec, loop_time() - started, str(error))

    def _report_failure(self, route_spec: RouteSpec, seconds: float, why: str) -> None:
        node = self._nodes.get(route_spec.node)
        if node is not None:
            message = f"Could not create route {node.metadata.uid} {route_spec.destination}"
            message = f"{message} for node {route_spec.node} after {seconds * 1000:.3f}ms: {why}"
            self._recorder.event(reference_to(node), "Warning", "FailedToCreateRoute", message)

    def _explain(self, plan: RoutePlan, table: RouteTable) -> None:
        """Report the problems that the plan shows."""
        for route_spec in plan.specs:
            if route_spec.problem:
                self._report_failure(route_spec, 0.0, route_spec.problem)
        self._explain_replaced(plan, table)
        cluster = ",".join(map(str, self._options.cluster_cidrs))
        for name, cidrs in plan.outside.items():
            message = (
                f"The pod CIDR {', '.join(cidrs)} is outside --cluster-cidr={cluster}, so this Node gets no "
            )
            message += "route. If you want Pods to use this pod CIDR, add it to --additional-route-cidrs"
            self._warn(name, "ClusterCIDRMisconfigured", message)
        for name, cidrs in plan.unroutable.items():
            self._explain_family(name, cidrs)
        self._paused.set(len(plan.held_back))
        self._held_back = len(plan.held_back)
        if plan.held_back:
            log.warning("routes_not_deleted", why=_NOT_SEEN, count=len(plan.held_back))
            message = (
                f"{len(plan.held_back)} routes are not deleted, because {_NOT_SEEN}. The token may belong to "
            )
            message += (
                f"another project. If you deleted the machines, run the CCM with {MASS_DELETION_BREAKER_OFF}"
            )
            self._recorder.event(self._about, "Warning", "RouteDeletionPaused", message)
        after = len(table.routes) - len(plan.deletions) + len(plan.creations)
        if table.limit is not None and plan.creations and after > NEARLY_FULL * table.limit:
            for route_spec in plan.creations:
                message = f"After this change, the network has {after} routes (limit: {table.limit})"
                self._warn(route_spec.node, "RouteLimitNear", message)

    def _explain_replaced(self, plan: RoutePlan, table: RouteTable) -> None:
        """Report that a Node's Pods' traffic went to a running machine that isn't a Node of this cluster."""
        machines = {
            canonical(deletion.destination): self._foreign_machine(deletion, table)
            for deletion in plan.deletions
        }
        for route_spec in plan.creations:
            machine = machines.get(route_spec.destination)
            if machine is None:
                continue
            message = (
                f"The network had a route for pod CIDR {route_spec.destination} to {machine.address}, the "
                "address of "
            )
            message += (
                f"machine {machine.name}, which isn't a node of this cluster. The CCM replaces the "
                "route. If this "
            )
            message += (
                "machine belongs to another cluster, give the two clusters different pod CIDRs or networks"
            )
            self._warn(route_spec.node, "RouteReplaced", message)

    def _foreign_machine(self, route: Route, table: RouteTable) -> Machine | None:
        """The target machine of a route, unless the machine has been a Node since the controller started."""
        machine = table.machines.get(route.gateway)
        ours = confirmed(self._former.values(), table)
        return None if machine is None or machine.provider_id in ours else machine

    def _explain_family(self, name: str, cidrs: Sequence[str]) -> None:
        """Report once that the CNI plugin must route these CIDRs. This isn't an error."""
        node = self._nodes.get(name)
        if node is None or node.metadata.uid in self._explained:
            return
        self._explained.add(node.metadata.uid)
        message = (
            f"The network in the cloud can't route the pod CIDRs {', '.join(cidrs)}, because the network "
            "doesn't support IPv6 or a CIDR isn't valid. The CNI plugin must deliver the packets for "
            "these pod CIDRs, for example through a tunnel"
        )
        log.info("pod_cidr_not_routed", node=name, cidrs=list(cidrs))
        self._recorder.event(reference_to(node), "Normal", "PodCIDRNotRouted", message)

    def _warn(self, name: str, reason: str, message: str) -> None:
        node = self._nodes.get(name)
        if node is not None:
            self._recorder.event(reference_to(node), "Warning", reason, message)

    async def _write_conditions(self, plan: RoutePlan, outcome: _Outcome) -> None:
        """Write changed conditions, except for Nodes without a route, which another controller may own."""
        available = {route_spec.node: route_spec.node not in outcome.failed for route_spec in plan.specs}
        available |= dict.fromkeys(plan.bare, False)
        for name, good in available.items():
            node = self._nodes.get(name)
            if node is None or is_condition_right(node, available=good):
                continue
            try:
                await self._write_condition(node, available=good)
            except NotFound:
                log.info("node_vanished", node=name)
            except KubernetesError as error:
                outcome.others.append(
                    f"could not write the condition NetworkUnavailable of node {name}: {error}"
                )

    async def _write_condition(self, node: Node, *, available: bool) -> None:
        now = timestamp(datetime.now(UTC))
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        conditions = [{**condition(available=available), **times}]
        body = {"metadata": identity(node), "status": {"conditions": conditions}}
        path = node_path(node.metadata.name, "status")
        await self._transport.patch(path, body, Node, content_type=STRATEGIC_MERGE_PATCH)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None and _relevant(old) == _relevant(new):
            return
        if old is not None and new is None:
            self._note(self._route_node(old))
            self._explained.discard(old.metadata.uid)
        self._nodes_changed = True
        now = loop_time()
        if now < self._due:
            return  # the scheduled run will include this change
        self._due = now + min(10.0, max(TOGETHER, self._pace.reserve(now)))
        self.queue.add_after(KEY, self._due - now)


def condition(*, available: bool) -> dict[str, str]:
    """The condition NetworkUnavailable with upstream's reasons and messages."""
    status, reason = ("False", "RouteCreated") if available else ("True", "NoRouteCreated")
    done = "created" if available else "failed to create"
    message = f"RouteController {done} a route"
    return {"type": "NetworkUnavailable", "status": status, "reason": reason, "message": message}


def is_condition_right(node: Node, *, available: bool) -> bool:
    """Whether the condition has the desired status and reason. Other fields don't matter."""
    wanted = condition(available=available)
    return any(
        (item.type, item.status, item.reason) == (wanted["type"], wanted["status"], wanted["reason"])
        for item in node.status.conditions
    )


def _route_node(node: Node, provider_id: str) -> RouteNode:
    created = node.metadata.creation_timestamp
    return RouteNode(
        node.metadata.name,
        provider_id,
        node.spec.pod_cidrs or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ()),
        tuple(address.address for address in node.status.addresses if address.type == INTERNAL_IP),
        created.timestamp() if created else 0.0,
    )


def _relevant(node: Node) -> tuple[object, ...]:
    return (
        node.metadata.uid,
        node.spec.provider_id,
        node.spec.pod_cidr,
        node.spec.pod_cidrs,
        node.status.addresses,
    )


WATCH_BASED = "CloudControllerManagerWatchBasedRoutesReconciliation"  # upstream's feature gate


@dataclass(frozen=True, slots=True)
class RouteOptions:
    """Options of the route controller."""

    cluster_cidrs: tuple[Cidr, ...]  # `--cluster-cidr`
    reconciliation_period: float = 10.0  # `--route-reconciliation-period`, seconds from start to start
    # run when Nodes change (at most once in 10 s), and every `resync_period`
    watch_based: bool = False
    resync_period: float = 300.0  # seconds
    # maximum age, in seconds, of the network's state for a run without changes
    accepted_age: float = 300.0
    mass_deletion_breaker: bool = True  # delete no route while the machines of most Nodes are missing
    more_cidrs: tuple[Cidr, ...] = ()  # `--additional-route-cidrs`: further ranges of Pod CIDRs


def parse_cluster_cidrs(text: str) -> tuple[Cidr, ...]:
    """Parse ``--cluster-cidr``. Raises ConfigurationError unless it has one CIDR, or one of each family."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    cidrs, problems = _parse("cluster-cidr", parts)
    if not parts:
        problems.append(
            "--cluster-cidr: required for routes. Set --cluster-cidr or --configure-cloud-routes=false"
        )
    if len(parts) > 2 or (len({cidr.version for cidr in cidrs}) < len(parts) and not problems):
        problems.append("--cluster-cidr: at most one IPv4 range and one IPv6 range are allowed")
    if problems:
        raise ConfigurationError(problems)
    return cidrs


def parse_additional_cidrs(texts: Sequence[str]) -> tuple[Cidr, ...]:
    """Parse ``--additional-route-cidrs``. Raises ConfigurationError if an entry isn't a CIDR."""
    cidrs, problems = _parse("additional-route-cidrs", texts)
    if problems:
        raise ConfigurationError(problems)
    return cidrs


def _parse(flag: str, texts: Sequence[str]) -> tuple[tuple[Cidr, ...], list[str]]:
    found = {text: parse_network(text) for text in texts}
    wrong = [
        f"--{flag}: {text!r} isn't a CIDR like 10.244.0.0/16" for text, cidr in found.items() if not cidr
    ]
    return tuple(cidr for cidr in found.values() if cidr), wrong
