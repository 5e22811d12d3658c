"""The service controller: reconciles the load balancers of Services.

All triggers use one queue of keys: a changed Service, a changed set of Nodes, a periodic resync, a retry.
Only one worker processes a key at a time, so a Service's load balancer has one writer. The worker reads the
Nodes when processing starts, so a slow sync never overwrites a newer set of Nodes with an older set.

Intended differences to upstream: Events only after a change; no action for a Service under deletion without
our finalizer; from a Service with a foreign class, only our own old finalizer is removed; drift (also of the
status) is repaired, with increasing delays if another client also writes; Nodes that are drained before their
deletion are removed immediately; the changes of one Service are rate-limited, to protect other Services.
"""

import asyncio
from dataclasses import dataclass, field

import structlog
from prometheus_client import CollectorRegistry

from ccm.clock import loop_time
from ccm.cloud import CloudError, LoadBalancers
from ccm.controllers.service.change_limits import ASSUMED_STEPS, ChangeRateLimiter
from ccm.controllers.service.hosts import Hosts, hosts_among
from ccm.controllers.service.metrics import ServiceMetrics
from ccm.controllers.service.policy import (
    Abandon,
    Action,
    Classes,
    Ensure,
    Postpone,
    Release,
    ServiceCache,
    UpdateHosts,
    has_finalizer,
    wants_load_balancer,
)
from ccm.controllers.service.syncer import ServiceNotSynced, ServiceSyncer
from ccm.kube.backoff import slow_limiter
from ccm.kube.events import Recorder
from ccm.kube.fairness import FairSemaphore, namespace_of
from ccm.kube.informer import Informer
from ccm.kube.objects import Node, Service
from ccm.kube.protocol import Transport
from ccm.kube.queue import WorkQueue
from ccm.kube.reconciler import run_workers

COMPONENT = "service-controller"
QUEUE = "service"
NODE_QUEUE = "node"
ALL_NODES = "nodes"
STUCK = 900.0  # seconds for one Service before the controller is unhealthy

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """Options of the service controller."""

    # `--concurrent-service-syncs`: maximum number of concurrent syncs, and of concurrent deletions
    concurrent_syncs: int = 1
    concurrent_host_syncs: int = 30  # maximum number of concurrent updates of Nodes
    # seconds between two checks of all load balancers for drift; 0 = never, as upstream
    resync_period: float = 300.0
    classes: Classes = field(default_factory=Classes)  # the classes of our Services


class ServiceController:
    """Reconciles the load balancers of Services while ``run`` is running."""

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
        self.queue = WorkQueue(QUEUE, limiter=slow_limiter()) if queue is None else queue
        self.node_queue = WorkQueue(NODE_QUEUE, limiter=slow_limiter()) if node_queue is None else node_queue
        self._cloud = load_balancers
        self._services = services
        self._nodes = nodes
        self._options = options or ServiceOptions()
        metrics = ServiceMetrics(registry or CollectorRegistry())
        self._syncer = ServiceSyncer(load_balancers, transport, recorder, metrics, nodes.items)
        self._cache = ServiceCache(self._options.classes)
        self._rate_limiter = ChangeRateLimiter()
        self._hosts = Hosts()
        self._slots = FairSemaphore(self._options.concurrent_syncs)
        # A deletion is quick, and doesn't wait until load balancers of other Services are created.
        self._deletion_slots = FairSemaphore(self._options.concurrent_syncs)
        # A key that waits for a slot occupies a worker, so limit the workers of one namespace.
        self.queue.group, self.queue.max_per_group = namespace_of, max(1, self._workers * 3 // 4)
        services.add_handler(self._on_service)
        nodes.add_handler(self._on_node)

    async def run(self) -> None:
        """Run the controller until cancelled."""
        await self._services.synced.wait()
        await self._nodes.synced.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self.node_queue, self.reconcile_node), name="service-nodes")
            group.create_task(run_workers(self.queue, self.reconcile, self._workers), name="services")
            if self._options.resync_period > 0:
                group.create_task(self._resync_loop(), name="service-resync")

    @property
    def _workers(self) -> int:
        return self._options.concurrent_syncs + self._options.concurrent_host_syncs

    def healthy(self) -> str | None:
        """An error message, or None if the controller is healthy."""
        if not (self._services.synced.is_set() and self._nodes.synced.is_set()):
            return "the lists of Services and Nodes are not complete yet"
        longest = max(self.queue.ages(), default=0.0)
        return (
            f"the controller has been processing the same Service for {longest:.0f} s"
            if longest > STUCK
            else None
        )

    async def reconcile(self, key: str) -> None:
        """Reconcile the load balancer of one Service. Raises ServiceNotSynced."""
        if key.count("/") != 1:
            raise ServiceNotSynced(f'unexpected key format: "{key}"')
        rest = self._rate_limiter.delay(key, loop_time())
        action = self._cache.decide(key, self._services.get(key), self._hosts.all, rest=rest)
        if not isinstance(action, Ensure | Release):
            await self._perform(key, action)
            return
        slots = self._slots if isinstance(action, Ensure) else self._deletion_slots
        async with slots.take(namespace_of(key)) as waited:
            if waited:
                service, hosts = self._services.get(key), self._hosts.all
                action = self._cache.decide(key, service, hosts, before=action)
            await self._perform(key, action)

    async def _perform(self, key: str, action: Action) -> None:
        match action:
            case Postpone(service, seconds, hosts):
                self.queue.add_after(key, seconds)
                # Report the delay once, even if the Service changes again meanwhile.
                if self._rate_limiter.should_report(key, loop_time()):
                    self._syncer.report_postponed(service, seconds)
                await self._perform(key, hosts)
            case UpdateHosts(service):
                cached, hosts = self._cache.services[key], self._hosts.all
                cached.service = service
                await self._syncer.update_hosts(cached, hosts_among(self._nodes.items()))
                cached.hosts, cached.due = hosts, None
            case Ensure(service, announced, by_owner):
                cached, hosts, steps = self._cache.services[key], self._hosts.all, ASSUMED_STEPS
                cached.service = service
                nodes = hosts_among(self._nodes.items())
                try:
                    steps = 1 + await self._syncer.ensure(cached, nodes, announced=announced)
                finally:
                    if by_owner:
                        self._rate_limiter.charge(key, steps, loop_time())
                cached.hosts, cached.due = hosts, None
            case Release(service):
                await self._syncer.release(service)
                self._rate_limiter.charge(key, ASSUMED_STEPS, loop_time())
                self._cache.services.pop(key, None)
            case Abandon(service, successor):
                await self._abandon(key, service, successor)
            case _:
                pass

    async def _abandon(self, key: str, old: Service, successor: Service | None) -> None:
        if successor is None:
            # A deletion can't be undone, so read the Service again, and don't trust the cache alone.
            there = await self._syncer.read(old)
            if (
                there is not None
                and there.metadata.uid == old.metadata.uid
                and not self._cache.is_foreign(there)
            ):
                return
        await self._syncer.abandon(old, successor)
        self._cache.services.pop(key, None)
        if successor is not None:
            self.queue.add(key)

    async def reconcile_node(self, _key: str) -> None:
        """Queue every Service whose load balancer has outdated Nodes.

        A failed Service doesn't wait for its retry: the failure may affect one port, but traffic to a deleted
        Node affects all ports. Services under deletion need no new Nodes.
        """
        self._hosts.catch_up(self._nodes.get)
        hosts = self._hosts.all
        now = loop_time()
        for key, cached in self._cache.services.items():
            service = self._services.get(key)
            going = service is None or not wants_load_balancer(service)
            # Also during the first sync, which may use older Nodes.
            if cached.hosts != hosts and not going:
                cached.due = cached.due or now
                self.queue.add(key)

    def resync(self) -> None:
        """Queue all Services to check for drift, except Services with a pending retry."""
        self._syncer.statuses.keep({service.metadata.uid for service in self._services.items()})
        for service in self._services.items():
            key = service.metadata.key
            if (
                not self._cache.is_foreign(service)
                and wants_load_balancer(service)
                and not self._is_failing(key)
            ):
                self.queue.add(key)

    async def report_orphans(self) -> None:
        """Report load balancers whose Services are gone, without changing them."""
        services = [
            service
            for service in self._services.items()
            if wants_load_balancer(service) or has_finalizer(service)
        ]
        try:
            found = await self._cloud.orphans({service.metadata.uid for service in services})
        except CloudError as error:
            log.warning("orphans_unknown", error=str(error))
            return
        self._syncer.report_orphans(found)

    async def _resync_loop(self) -> None:
        while True:
            await asyncio.sleep(self._options.resync_period)
            self.resync()
            await self.report_orphans()

    def _is_failing(self, key: str) -> bool:
        return self.queue.failures(key) > 0 and self.queue.is_delayed(key)

    def _on_service(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        if service is None:
            return
        key = service.metadata.key
        look = self._cache.changed(old, new, loop_time(), self._is_failing)
        if look.contested:
            text = (
                "another client repeatedly changes fields that the service controller writes: "
                f"{look.contested}"
            )
            self._syncer.report_warning(
                service,
                "ServiceContested",
                f"{text}. The service controller writes its values again, and waits longer before each "
                "attempt",
            )
        if look.after is not None:
            self.queue.add_after(key, look.after)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        seconds = self._hosts.see(node.metadata.name, new, loop_time()) if node is not None else None
        if seconds is not None:
            # One key for all Nodes, because each run handles all Nodes, and thousands may change at once.
            self.node_queue.add_after(ALL_NODES, seconds)
