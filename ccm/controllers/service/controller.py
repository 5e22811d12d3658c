"""The service controller: keeps the load balancers of Services as they should be.

One queue of Services' keys serves all reasons to look: a changed Service, a changed set of Nodes, a periodic
look for drift, a retry. A key is never in two workers' hands at once, so nothing ever works on one Service's
load balancer twice at the same time, and the Nodes are read when a Service's turn comes, so a slow turn never
puts an older set of Nodes over a newer one.

Where we differ from upstream on purpose: Events come only when something was done; a Service under deletion
without our finalizer is left alone; a Service of a foreign class is never touched; drift, also of the status,
is repaired; Nodes that are drained to be deleted leave at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from prometheus_client import CollectorRegistry

from ccm.cloud import CloudError, ImplementedElsewhere, LoadBalancerResult, LoadBalancers, Notice
from ccm.controllers.nodes import report
from ccm.controllers.nodes import view_of as node_view
from ccm.controllers.service.hosts import Host, host_of, hosts_among, names_for_people
from ccm.controllers.service.metrics import ServiceMetrics
from ccm.controllers.service.patches import add_finalizer, remove_finalizer, service_path, write_status
from ccm.controllers.service.policy import (
    Classes,
    has_finalizer,
    needs_cleanup,
    relevant,
    status_of,
    view_of,
    wants_load_balancer,
)
from ccm.errors import CcmError
from ccm.kube.errors import KubernetesError, NotFound
from ccm.kube.events import Recorder
from ccm.kube.informer import Informer
from ccm.kube.objects import LoadBalancerIngress, Node, Service, reference_to
from ccm.kube.protocol import Transport
from ccm.kube.queue import QueueObserver, WorkQueue
from ccm.kube.ratelimit import RetryLimiter
from ccm.kube.reconciler import run_workers

COMPONENT = "service-controller"
QUEUE = "service"
NODE_QUEUE = "node"
ALL_NODES = "nodes"
RETRY_BASE = 5.0
RETRY_CAP = 300.0
STUCK = 900.0  # seconds that one Service may take before we say that something is wrong

log = structlog.stdlib.get_logger(__name__)


class ServiceNotSynced(CcmError):
    """A Service's load balancer is not as it should be; it is tried again."""


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What the owner may choose.

    Attributes:
        concurrent_syncs: ``--concurrent-service-syncs``: how many changed Services are worked on at once.
        concurrent_host_syncs: How many load balancers may get a new set of Nodes at once.
        resync_period: Seconds between two looks for drift at all load balancers; 0 = never, as upstream.
        classes: Which Services are ours.
    """

    concurrent_syncs: int = 1
    concurrent_host_syncs: int = 30
    resync_period: float = 300.0
    classes: Classes = field(default_factory=Classes)


@dataclass(slots=True)
class _Known:
    """What we remember of a Service that we work for.

    Attributes:
        service: As it was when it was last looked at.
        hosts: The Nodes that the cloud was last told of; None = of none yet.
        ingress: The status that we wrote; None = none yet.
        notices: What its owner was told and has not become untrue since.
        due: Since when, in the event loop's seconds, its Nodes are out of date; None = they are not.
    """

    service: Service
    hosts: tuple[Host, ...] | None = None
    ingress: tuple[LoadBalancerIngress, ...] | None = None
    notices: frozenset[Notice] = frozenset()
    due: float | None = None


class ServiceController:
    """See the module.

    Args:
        load_balancers: The cloud's load balancers.
        transport: The API server.
        services: All Services, kept current by somebody else.
        nodes: All Nodes, likewise.
        recorder: Takes Events, for the component :data:`COMPONENT`.
        options: What the owner chose.
        registry: Where metrics are registered.
        queue: Keys are ``namespace/name``.
        node_queue: Holds the one key :data:`ALL_NODES` when a Node changed.
    """

    def __init__(
        self,
        load_balancers: LoadBalancers,
        transport: Transport,
        services: Informer[Service],
        nodes: Informer[Node],
        recorder: Recorder,
        *,
        options: ServiceOptions | None = None,
        registry: CollectorRegistry | None = None,
        queue: WorkQueue | None = None,
        node_queue: WorkQueue | None = None,
    ) -> None:
        self.queue = new_queue(QUEUE) if queue is None else queue
        self.node_queue = new_queue(NODE_QUEUE) if node_queue is None else node_queue
        self._cloud = load_balancers
        self._transport = transport
        self._services = services
        self._nodes = nodes
        self._recorder = recorder
        self._options = options or ServiceOptions()
        self._metrics = ServiceMetrics(registry or CollectorRegistry())
        self._known: dict[str, _Known] = {}
        self._foreign: set[str] = set()
        self._turns = asyncio.Semaphore(max(1, self._options.concurrent_syncs))
        services.add_handler(self._on_service)
        nodes.add_handler(self._on_node)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._services.synced.wait()
        await self._nodes.synced.wait()
        workers = self._options.concurrent_syncs + self._options.concurrent_host_syncs
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self.node_queue, self.reconcile_node), name="service-nodes")
            group.create_task(run_workers(self.queue, self.reconcile, workers), name="services")
            if self._options.resync_period > 0:
                group.create_task(self._resync_loop(), name="service-resync")

    def healthy(self) -> str | None:
        """What is wrong, or None."""
        if not (self._services.synced.is_set() and self._nodes.synced.is_set()):
            return "the lists of services and nodes are not complete yet"
        longest = self.queue.statistics().longest_processing
        return f"a service has been in work for {longest:.0f} s" if longest > STUCK else None

    async def reconcile(self, key: str) -> None:
        """Make the load balancer of one Service right.

        Raises:
            ServiceNotSynced: it is not right; what made it fail is the cause.
        """
        if key.count("/") != 1:
            raise ServiceNotSynced(f'unexpected key format: "{key}"')
        service = self._services.get(key)
        known = self._known.get(key)
        if known is not None and (service is None or not self._is_same(known.service, service)):
            await self._abandon(key, known.service, service)
        if service is None or self._is_foreign(service):
            return
        if wants_load_balancer(service):
            await self._ensure(key, service)
        elif needs_cleanup(service):
            await self._clean_up(key, service)
        else:
            self._known.pop(key, None)

    async def reconcile_node(self, _key: str) -> None:
        """A Node changed: look at every load balancer whose Nodes are not these any more."""
        hosts = self._hosts()
        now = asyncio.get_running_loop().time()
        for key, known in self._known.items():
            if known.hosts is not None and known.hosts != hosts:
                known.due = known.due or now
                if not self._is_failing(key):
                    self.queue.add(key)

    def resync(self) -> None:
        """Look at all load balancers for drift, except those that are tried again anyway."""
        for service in self._services.items():
            key = service.metadata.key
            if not self._is_foreign(service) and wants_load_balancer(service) and not self._is_failing(key):
                self.queue.add(key)

    async def _resync_loop(self) -> None:
        while True:
            await asyncio.sleep(self._options.resync_period)
            self.resync()

    async def _ensure(self, key: str, service: Service) -> None:
        nodes = hosts_among(self._nodes.items())
        hosts = tuple(host for node in nodes if (host := host_of(node)) is not None)
        known = self._known.get(key)
        changed = known is None or relevant(known.service) != relevant(service)
        first = not has_finalizer(service)
        only_hosts = known is not None and not changed and not first and known.hosts not in (None, hosts)
        if known is None:
            known = self._known[key] = _Known(service)
            changed = False  # after a restart everything is new to us, and nothing is to anybody else
        known.service = service
        if only_hosts:
            await self._update_hosts(known, nodes)
        else:
            async with self._turns:
                await self._sync(known, nodes, announced=first or changed)
        known.hosts = hosts
        known.due = None

    async def _sync(self, known: _Known, nodes: list[Node], *, announced: bool) -> None:
        """Create the load balancer, or make it as wanted."""
        service = known.service
        if announced:
            self._tell(service, "EnsuringLoadBalancer", "Ensuring load balancer")
        async with self._failing_as(service, "SyncLoadBalancerFailed", "Error syncing load balancer"):
            async with _saying("failed to add load balancer cleanup finalizer"):
                service = await add_finalizer(self._transport, service)
            async with _saying("failed to ensure load balancer"):
                result = await self._call(known, nodes)
            if result is None:
                return
            status_changed = await self._write_status(known, service, status_of(result.ingress))
        if not nodes and (announced or result.steps):
            self._warn(service, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
        if announced or result.steps or status_changed:
            self._tell(service, "EnsuredLoadBalancer", "Ensured load balancer")

    async def _update_hosts(self, known: _Known, nodes: list[Node]) -> None:
        """The Service is as it was, only the Nodes behind it changed."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._metrics.host_syncs.inc()
        text = (
            f"Error updating load balancer with new hosts [{names_for_people(nodes)}] "
            f"[node names limited, total number of nodes: {len(nodes)}], error"
        )
        try:
            async with self._failing_as(known.service, "UpdateLoadBalancerFailed", text):
                result = await self._call(known, nodes)
                if result is not None:
                    await self._write_status(known, known.service, status_of(result.ingress))
        except ServiceNotSynced:
            self._metrics.node_sync_errors.inc()
            raise
        finally:
            self._metrics.host_latency.observe(loop.time() - started)
            self._metrics.node_sync_latency.observe(loop.time() - (known.due or started))
        if not nodes:
            text = "There are no available nodes for LoadBalancer"
            self._warn(known.service, "UnAvailableLoadBalancer", text)
        elif result is not None and result.steps:
            self._tell(known.service, "UpdatedLoadBalancer", "Updated load balancer with new hosts")

    async def _call(self, known: _Known, nodes: list[Node]) -> LoadBalancerResult | None:
        """Have the cloud make it so; None = somebody else does."""
        try:
            result = await self._cloud.ensure(view_of(known.service), [node_view(node) for node in nodes])
        except ImplementedElsewhere:
            return None
        except CloudError as error:
            self._notify(known, error.notices)
            raise
        self._notify(known, result.notices)
        if result.steps:
            log.info("load_balancer_changed", service=known.service.metadata.key, steps=list(result.steps))
        return result

    async def _write_status(
        self, known: _Known, service: Service, ingress: tuple[LoadBalancerIngress, ...]
    ) -> bool:
        """Whether the status had to be changed."""
        known.ingress = ingress
        if service.status.load_balancer.ingress == ingress:
            return False
        async with _saying("failed to update load balancer status"):
            try:
                await write_status(self._transport, service, ingress)
            except NotFound:
                return False  # deleted meanwhile: the queue brings us back for that
        return True

    async def _clean_up(self, key: str, service: Service) -> None:
        """Remove the load balancer of a Service that does not want one any more, then let the Service go."""
        async with (
            self._turns,
            self._failing_as(service, "SyncLoadBalancerFailed", "Error syncing load balancer"),
        ):
            result = await self._delete(service)
            try:
                if service.metadata.deletion_timestamp is None:
                    async with _saying("failed to update load balancer status"):
                        service = await write_status(self._transport, service, ())
                async with _saying("failed to remove load balancer cleanup finalizer"):
                    await remove_finalizer(self._transport, service)
            except NotFound:
                log.info("service_vanished", service=key)
        self._known.pop(key, None)
        log.info("load_balancer_released", service=key, steps=list(result.steps))

    async def _delete(self, service: Service) -> LoadBalancerResult:
        view = view_of(service)
        async with _saying("failed to check if load balancer exists before cleanup"):
            found = await self._cloud.find(view)
        if found is not None:
            self._tell(service, "DeletingLoadBalancer", "Deleting load balancer")
        try:
            async with _saying("failed to delete load balancer"):
                # Even without a load balancer: certificates may be left of it.
                result = await self._cloud.delete(view)
        except ImplementedElsewhere:
            result = LoadBalancerResult(())
        report(self._recorder, reference_to(service), result.notices)
        if result.steps:
            self._tell(service, "DeletedLoadBalancer", "Deleted load balancer")
        return result

    async def _abandon(self, key: str, old: Service, new: Service | None) -> None:
        """A Service that we worked for is gone without our consent, or is another one by now."""
        if new is None:
            # A deletion destroys: that the Service is gone must not rest on our copy alone.
            try:
                there = await self._transport.get(service_path(old), Service)
            except NotFound:
                pass
            except KubernetesError as error:
                raise ServiceNotSynced(f"can't tell whether service {key} is gone: {error}") from error
            else:
                if self._is_same(old, there):
                    return
        async with self._failing_as(old, "DeleteLoadBalancerFailed", "Error deleting load balancer"):
            await self._delete(old)
        self._known.pop(key, None)

    def _is_same(self, old: Service, new: Service) -> bool:
        return old.metadata.uid == new.metadata.uid and not self._is_foreign(new)

    def _is_foreign(self, service: Service) -> bool:
        """Whether another controller works for it; a Service that loses its class is remembered as theirs."""
        uid = service.metadata.uid
        if wants_load_balancer(service):
            self._foreign.discard(uid)
            if not self._options.classes.contain(service):
                self._foreign.add(uid)
        return uid in self._foreign or not self._options.classes.contain(service)

    def _is_failing(self, key: str) -> bool:
        return self.queue.failures(key) > 0 and self.queue.is_delayed(key)

    def _hosts(self) -> tuple[Host, ...]:
        hosts = (host_of(node) for node in hosts_among(self._nodes.items()))
        return tuple(host for host in hosts if host is not None)

    def _on_service(self, old: Service | None, new: Service | None) -> None:
        if new is None:
            if old is not None:
                self._foreign.discard(old.metadata.uid)
                if old.metadata.key in self._known:
                    self.queue.add(old.metadata.key)
            return
        key = new.metadata.key
        if self._is_foreign(new) and key not in self._known:
            return
        if needs_cleanup(new):
            if old is None or not needs_cleanup(old) or not self._is_failing(key):
                self.queue.add(key)
        elif old is None or relevant(old) != relevant(new):
            if wants_load_balancer(new) or key in self._known:
                self.queue.add(key)
        elif self._status_was_lost(key, old, new):
            self.queue.add(key)

    def _status_was_lost(self, key: str, old: Service, new: Service) -> bool:
        """Whether somebody changed what we wrote; our own writes arrive here as well."""
        known = self._known.get(key)
        if known is None or known.ingress is None or self._is_failing(key):
            return False
        return old.status.load_balancer.ingress == known.ingress != new.status.load_balancer.ingress

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if host_of(old) != host_of(new):
            # One key for all: each look is at all Nodes, and thousands may change at once.
            self.node_queue.add(ALL_NODES)

    def _notify(self, known: _Known, notices: Iterable[Notice]) -> None:
        """Tell the owner what is new; what was said already is not repeated at every look."""
        fresh = frozenset(notices)
        report(
            self._recorder, reference_to(known.service), [one for one in notices if one not in known.notices]
        )
        known.notices = fresh

    def _tell(self, service: Service, reason: str, message: str) -> None:
        self._recorder.event(reference_to(service), "Normal", reason, message)

    def _warn(self, service: Service, reason: str, message: str) -> None:
        self._recorder.event(reference_to(service), "Warning", reason, message)

    @asynccontextmanager
    async def _failing_as(self, service: Service, reason: str, text: str) -> AsyncGenerator[None, None]:
        """Turn a failure into an Event on the Service, and into an error for the queue."""
        try:
            yield
        except (CloudError, KubernetesError, ServiceNotSynced) as error:
            self._warn(service, reason, f"{text}: {error}")
            raise ServiceNotSynced(f"{service.metadata.key}: {error}") from error


def new_queue(name: str, observer: QueueObserver | None = None) -> WorkQueue:
    """A queue with upstream's delays for this controller: 5 s, doubled up to 5 minutes."""
    return WorkQueue(name, limiter=RetryLimiter(RETRY_BASE, RETRY_CAP), observer=observer)


@asynccontextmanager
async def _saying(what: str) -> AsyncGenerator[None, None]:
    """Put before an error's text what failed; the error stays its cause."""
    try:
        yield
    except (ImplementedElsewhere, NotFound):
        raise  # no failures: whoever asked for it knows what they mean
    except (CloudError, KubernetesError) as error:
        raise ServiceNotSynced(f"{what}: {error}") from error
