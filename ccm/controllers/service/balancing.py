"""Makes the load balancer of a Service that wants one, and writes down where it is reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from ccm.clock import loop_time
from ccm.cloud import CloudError, ImplementedElsewhere, LoadBalancerResult, LoadBalancers
from ccm.controllers.nodes import view_of as node_view
from ccm.controllers.service.announcer import Announcer, ServiceNotSynced, saying
from ccm.controllers.service.hosts import names_for_people, why_none
from ccm.controllers.service.known import Known
from ccm.controllers.service.metrics import ServiceMetrics
from ccm.controllers.service.patches import add_finalizer, write_status
from ccm.controllers.service.policy import status_of, view_of
from ccm.kube.errors import Forbidden, Invalid, NotFound
from ccm.kube.objects import LoadBalancerIngress, Node, Service
from ccm.kube.protocol import Transport
from ccm.kube.ratelimit import EffectBackoff

_STATUS = "status"

log = structlog.stdlib.get_logger(__name__)


class StatusRefused(ServiceNotSynced):
    """The API server does not take the Service's status, or somebody undoes it there.

    Attributes:
        retry_after: Seconds until it is written again.
    """

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(
            "the API server does not take the load balancer's addresses into the status; it is tried again "
            "ever more rarely"
        )


@dataclass(frozen=True)
class Balancing:
    """Makes, changes and looks after load balancers; writes their addresses into the status."""

    cloud: LoadBalancers
    transport: Transport
    announcer: Announcer
    metrics: ServiceMetrics
    all_nodes: Callable[[], Sequence[Node]]
    statuses: EffectBackoff = field(default_factory=EffectBackoff)

    async def sync(self, known: Known, nodes: list[Node], *, announced: bool) -> int:
        """Create the load balancer, or make it as wanted; if ``announced``, that is told in any case.

        Returns:
            How many steps that took in the cloud.

        Raises:
            ServiceNotSynced: It is not as wanted.
        """
        service, tell = known.service, self.announcer.tell
        if announced:
            tell(service, "EnsuringLoadBalancer", "Ensuring load balancer")
        async with self.announcer.failing_as(
            service, "SyncLoadBalancerFailed", "Error syncing load balancer"
        ):
            async with saying("failed to add load balancer cleanup finalizer"):
                service = await add_finalizer(self.transport, service)
            async with saying("failed to ensure load balancer"):
                result = await self._call(known, service, nodes)
            if result is None:
                return 0
            status_changed = await self._write_status(known, service, status_of(result.ingress))
        if not nodes and (announced or result.steps):
            self.announcer.warn(service, "UnAvailableLoadBalancer", why_none(self.all_nodes()))
        if announced or result.steps or status_changed:
            tell(service, "EnsuredLoadBalancer", "Ensured load balancer")
        return len(result.steps)

    async def update_hosts(self, known: Known, nodes: list[Node]) -> None:
        """The Service is as it was, only the Nodes behind it changed.

        Raises:
            ServiceNotSynced: The load balancer is not as wanted.
        """
        started = loop_time()
        self.metrics.host_syncs.inc()
        text = (
            f"Error updating load balancer with new hosts [{names_for_people(nodes)}] "
            f"[node names limited, total number of nodes: {len(nodes)}], error"
        )
        try:
            async with self.announcer.failing_as(known.service, "UpdateLoadBalancerFailed", text):
                result = await self._call(known, known.service, nodes)
                if result is not None:
                    await self._write_status(known, known.service, status_of(result.ingress))
        except ServiceNotSynced:
            self.metrics.node_sync_errors.inc()
            raise
        finally:
            self.metrics.host_latency.observe(loop_time() - started)
            self.metrics.node_sync_latency.observe(loop_time() - (known.due or started))
        if not nodes:
            self.announcer.warn(known.service, "UnAvailableLoadBalancer", why_none(self.all_nodes()))
        elif result is not None and result.steps:
            text = "Updated load balancer with new hosts"
            self.announcer.tell(known.service, "UpdatedLoadBalancer", text)

    async def _call(self, known: Known, service: Service, nodes: list[Node]) -> LoadBalancerResult | None:
        """Have the cloud make it so; None = somebody else does."""
        view = view_of(known.service, hosts_excluded=not nodes and bool(self.all_nodes()))
        try:
            result = await self.cloud.ensure(view, [node_view(node) for node in nodes])
        except ImplementedElsewhere:
            return None
        except CloudError as error:
            self.announcer.notify(known, error.notices)
            if error.ingress:  # one port that can't be served keeps nobody from the others
                await self._write_status(known, service, status_of(error.ingress))
            raise
        self.announcer.notify(known, result.notices)
        if result.steps:
            log.info("load_balancer_changed", service=known.service.metadata.key, steps=list(result.steps))
        return result

    async def _write_status(
        self, known: Known, service: Service, ingress: tuple[LoadBalancerIngress, ...]
    ) -> bool:
        """Whether the status had to be changed."""
        known.ingress, uid = ingress, service.metadata.uid
        if service.status.load_balancer.ingress == ingress:
            self.statuses.forget(uid, _STATUS)
            return False
        if (wait := self.statuses.wait(uid, _STATUS, loop_time(), ingress)) > 0:
            raise StatusRefused(wait)
        async with saying("failed to update load balancer status"):
            try:
                written = await write_status(self.transport, service, ingress)
            except NotFound:
                return False  # deleted meanwhile: the queue brings us back for that
            except (Forbidden, Invalid):
                self.statuses.tried(uid, _STATUS, loop_time(), ingress)
                raise
        if written.status.load_balancer.ingress != ingress:
            self.statuses.tried(uid, _STATUS, loop_time(), ingress)
            raise StatusRefused(self.statuses.wait(uid, _STATUS, loop_time(), ingress))
        return True
