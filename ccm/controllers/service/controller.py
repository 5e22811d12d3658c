"""The service controller: keeps the load balancers of Services as they should be.

One queue of Services' keys serves all reasons to look: a changed Service, a changed set of Nodes, a periodic
look for drift, a retry. A key is never in two workers' hands at once, so nothing ever works on one Service's
load balancer twice at the same time, and the Nodes are read when a Service's turn comes, so a slow turn never
puts an older set of Nodes over a newer one.

Where we differ from upstream on purpose: Events come only when something was done; a Service under deletion
without our finalizer is left alone; a Service of a foreign class is never touched, but for our own finalizer
if it was ours before; drift, also of the status, is repaired, ever more rarely where somebody else writes it,
too; Nodes that are drained to be deleted leave at once; an owner who changes one Service again and again
waits, so that the others need not.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog
from prometheus_client import CollectorRegistry

from ccm.clock import loop_time
from ccm.cloud import CloudError, LoadBalancers
from ccm.controllers.service.announcer import Announcer, ServiceNotSynced
from ccm.controllers.service.balancing import Balancing
from ccm.controllers.service.cleanup import Cleanup
from ccm.controllers.service.hosts import Hosts, hosts_among
from ccm.controllers.service.known import Known
from ccm.controllers.service.metrics import ServiceMetrics
from ccm.controllers.service.pace import UNTOLD, Pace
from ccm.controllers.service.policy import (
    Classes,
    has_finalizer,
    needs_cleanup,
    relevant,
    wants_load_balancer,
)
from ccm.kube.events import Recorder
from ccm.kube.fairness import Turns, namespace_of
from ccm.kube.informer import Informer
from ccm.kube.objects import Node, Service
from ccm.kube.protocol import Transport
from ccm.kube.queue import WorkQueue
from ccm.kube.ratelimit import slow_limiter
from ccm.kube.reconciler import run_workers

COMPONENT = "service-controller"
QUEUE = "service"
NODE_QUEUE = "node"
ALL_NODES = "nodes"
STUCK = 900.0  # seconds that one Service may take before we say that something is wrong

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What the owner may choose.

    Attributes:
        concurrent_syncs: ``--concurrent-service-syncs``: how many changed Services are worked on at once, and
            beside them as many that go.
        concurrent_host_syncs: How many load balancers may get a new set of Nodes at once.
        resync_period: Seconds between two looks for drift at all load balancers; 0 = never, as upstream.
        classes: Which Services are ours.
    """

    concurrent_syncs: int = 1
    concurrent_host_syncs: int = 30
    resync_period: float = 300.0
    classes: Classes = field(default_factory=Classes)


class ServiceController:
    """Keeps the load balancers of Services as they should be, while its ``run`` runs.

    Args:
        services: All Services, kept current by somebody else.
        nodes: All Nodes, likewise.
        recorder: Takes Events, for the component :data:`COMPONENT`.
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
        self.queue = WorkQueue(QUEUE, limiter=slow_limiter()) if queue is None else queue
        self.node_queue = WorkQueue(NODE_QUEUE, limiter=slow_limiter()) if node_queue is None else node_queue
        self._cloud = load_balancers
        self._services = services
        self._nodes = nodes
        self._options = options or ServiceOptions()
        self._metrics = ServiceMetrics(registry or CollectorRegistry())
        self._announcer = Announcer(recorder)
        self._balancing = Balancing(load_balancers, transport, self._announcer, self._metrics, nodes.items)
        self._cleanup = Cleanup(load_balancers, transport, self._announcer)
        self._known: dict[str, Known] = {}
        self._foreign: set[str] = set()
        self._hosts = Hosts()
        self._pace = Pace()
        self._turns = Turns(self._options.concurrent_syncs)
        # A deletion needs little, and does not wait until somebody's load balancer is made.
        self._departures = Turns(self._options.concurrent_syncs)
        # A key that waits for its turn keeps a worker, so one namespace may not take all of them.
        self.queue.group, self.queue.most = namespace_of, max(1, self._workers * 3 // 4)
        services.add_handler(self._on_service)
        nodes.add_handler(self._on_node)

    async def run(self) -> None:
        """Work until cancelled."""
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
        """What is wrong, or None."""
        if not (self._services.synced.is_set() and self._nodes.synced.is_set()):
            return "the lists of services and nodes are not complete yet"
        longest = max(self.queue.ages(), default=0.0)
        return f"a service has been in work for {longest:.0f} s" if longest > STUCK else None

    async def reconcile(self, key: str) -> None:
        """Make the load balancer of one Service right.

        Raises:
            ServiceNotSynced: It is not right; what made it fail is the cause.
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
        elif known is not None or needs_cleanup(service):
            # What we know of goes even if somebody took our finalizer away.
            async with self._departures.take(namespace_of(key)):
                if self._still_wants_one(key, service) is not None:
                    return  # it wants one again, and is in the queue for that
                await self._cleanup.release(service)
            self._pace.spend(key, UNTOLD, loop_time())
            self._known.pop(key, None)

    async def reconcile_node(self, _key: str) -> None:
        """A Node changed: look at every load balancer whose Nodes are not these any more.

        A Service that fails does not wait for its next try: what it fails for may concern one port, and
        traffic to a Node that is gone concerns all. Only a deletion has no use for other Nodes.
        """
        self._hosts.catch_up(self._nodes.get)
        hosts = self._hosts.all
        now = loop_time()
        for key, known in self._known.items():
            service = self._services.get(key)
            going = service is None or not wants_load_balancer(service)
            # Also while the first look lasts: it may be at older Nodes.
            if known.hosts != hosts and not going:
                known.due = known.due or now
                self.queue.add(key)

    def resync(self) -> None:
        """Look at all load balancers for drift, except those that are tried again anyway."""
        self._balancing.statuses.keep({service.metadata.uid for service in self._services.items()})
        for service in self._services.items():
            key = service.metadata.key
            if not self._is_foreign(service) and wants_load_balancer(service) and not self._is_failing(key):
                self.queue.add(key)

    async def report_orphans(self) -> None:
        """Tell of load balancers whose Services are gone; nothing is done about them."""
        services = [one for one in self._services.items() if wants_load_balancer(one) or has_finalizer(one)]
        try:
            found = await self._cloud.orphans({one.metadata.uid for one in services})
        except CloudError as error:
            log.warning("orphans_unknown", error=str(error))
            return
        self._metrics.orphans.set(len(found))
        self._announcer.orphans(found)

    async def _resync_loop(self) -> None:
        while True:
            await asyncio.sleep(self._options.resync_period)
            self.resync()
            await self.report_orphans()

    async def _ensure(self, key: str, service: Service) -> None:
        hosts = self._hosts.all
        known = self._known.get(key)
        changed = known is None or relevant(known.service) != relevant(service)
        first = not has_finalizer(service)
        by_owner = changed or (first and known is None)
        if by_owner and (seconds := self._pace.rest(key, loop_time())) > 0:
            self._postpone(key, service, seconds)
            if known is None or known.hosts in (None, hosts):
                return
            by_owner, changed, first, service = False, False, False, known.service  # Nodes don't wait for it
        only_hosts = known is not None and not changed and not first and known.hosts not in (None, hosts)
        if known is None:
            known = self._known[key] = Known(service)
            changed = False  # after a restart everything is new to us, and nothing is to anybody else
        if only_hosts:
            known.service = service
            await self._balancing.update_hosts(known, hosts_among(self._nodes.items()))
        else:
            async with self._turns.take(namespace_of(key)):
                now = self._still_wants_one(key, service)
                if now is None:
                    return  # it wants none any more, and is in the queue for that
                changed = changed or relevant(now) != relevant(service)
                by_owner = by_owner or changed
                known.service, hosts, steps = now, self._hosts.all, UNTOLD
                nodes = hosts_among(self._nodes.items())
                try:
                    steps = 1 + await self._balancing.sync(known, nodes, announced=first or changed)
                finally:
                    if by_owner:
                        self._pace.spend(key, steps, loop_time())
        known.hosts = hosts
        known.due = None

    def _postpone(self, key: str, service: Service, seconds: float) -> None:
        """What its owner wants has to wait; that is told once, however often it changes meanwhile."""
        self.queue.add_after(key, seconds)
        if self._pace.is_news(key, loop_time()):
            log.warning("service_changes_too_often", service=key, next_change_in=round(seconds))
            text = "This Service, or others of its namespace, changed often: its load balancer follows in "
            self._announcer.tell(service, "LoadBalancerChangePostponed", f"{text}{seconds:.0f} s")

    async def _abandon(self, key: str, old: Service, new: Service | None) -> None:
        """A Service that we worked for is gone without our consent, or is another one or another's by now."""
        if new is None:
            # A deletion destroys: that the Service is gone must not rest on our copy alone.
            there = await self._cleanup.read(old)
            if there is not None and self._is_same(old, there):
                return
        await self._cleanup.abandon(old)
        if new is not None and new.metadata.uid == old.metadata.uid:
            await self._cleanup.let_go(new)
        self._known.pop(key, None)

    def _still_wants_one(self, key: str, service: Service) -> Service | None:
        """A Service after it waited for its turn; None = it is gone, or wants no load balancer of us."""
        now = self._services.get(key)
        wants = now is not None and wants_load_balancer(now) and self._is_same(service, now)
        return now if wants else None

    def _is_same(self, old: Service, new: Service) -> bool:
        return old.metadata.uid == new.metadata.uid and not self._is_foreign(new)

    def _is_foreign(self, service: Service) -> bool:
        """Whether another controller works for it.

        A Service loses its class with its type, and stays then whose it was, as far as that is remembered.
        """
        uid, known = service.metadata.uid, self._known.get(service.metadata.key)
        if wants_load_balancer(service):
            self._foreign.discard(uid)
            if not self._options.classes.contain(service):
                self._foreign.add(uid)
        elif known is not None and known.service.metadata.uid == uid:
            return False
        return uid in self._foreign or not self._options.classes.contain(service)

    def _is_failing(self, key: str) -> bool:
        return self.queue.failures(key) > 0 and self.queue.is_delayed(key)

    def _on_service(self, old: Service | None, new: Service | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._foreign.discard(old.metadata.uid)
        if new is None:
            if old is not None and old.metadata.key in self._known:
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
        elif key in self._known and not self._is_failing(key):
            self._restore(key, self._known[key], old, new)

    def _restore(self, key: str, known: Known, old: Service, new: Service) -> None:
        """Put back what somebody took of what we wrote, the later the more often that happens."""
        lost = known.lost(old, new)
        if not lost:
            return
        told = known.restoring.contested
        seconds = known.restoring.lost(loop_time())
        if known.restoring.contested and not told:
            text = f"something else writes what is ours to write, again and again: {lost}"
            self._announcer.warn(new, "ServiceContested", f"{text}; it is set right ever more rarely")
        self.queue.add_after(key, seconds)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        seconds = self._hosts.see(node.metadata.name, new, loop_time()) if node is not None else None
        if seconds is not None:
            # One key for all: each look is at all Nodes, and thousands may change at once.
            self.node_queue.add_after(ALL_NODES, seconds)
