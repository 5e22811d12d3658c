"""Calls the cloud for load balancers, writes Services, and reports Events.

As in upstream, patches of ``/status`` write both the finalizer and the status. Every patch contains the UID,
so the API server refuses the patch if the Service was recreated with the same name.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from ccm.clock import loop_time
from ccm.cloud import (
    CloudError,
    ImplementedElsewhere,
    Ingress,
    LoadBalancerResult,
    LoadBalancers,
    Notice,
    Orphan,
    ServicePort,
    ServiceView,
)
from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.nodes import report
from ccm.controllers.nodes import view_of as node_view
from ccm.controllers.service.hosts import names_for_people, why_none
from ccm.controllers.service.metrics import ServiceMetrics
from ccm.controllers.service.policy import MAX_PORTS, CachedService
from ccm.errors import CcmError
from ccm.kube.backoff import EffectBackoff
from ccm.kube.errors import Forbidden, Invalid, KubernetesError, NotFound
from ccm.kube.events import Recorder
from ccm.kube.objects import LoadBalancerIngress, Node, ObjectReference, Service, reference_to, to_wire
from ccm.kube.protocol import STRATEGIC_MERGE_PATCH, Transport

_SYNCING = "Error syncing load balancer"
_STATUS = "status"

log = structlog.stdlib.get_logger(__name__)


class ServiceNotSynced(CcmError):
    """The sync of a Service failed, and will be retried."""


class StatusRefused(ServiceNotSynced):
    """The API server doesn't accept the Service's status, or another client reverts it."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(
            "the API server rejects the load balancer's addresses in the Service's status, or another client "
            "removes these addresses. The controller retries with increasing delays"
        )


@asynccontextmanager
async def _error_context(what: str) -> AsyncGenerator[None, None]:
    """Prefix an error's message with the failed action; the error becomes the cause."""
    try:
        yield
    except (ImplementedElsewhere, NotFound):
        raise  # not failures: the callers handle them
    except (CloudError, KubernetesError) as error:
        raise ServiceNotSynced(f"{what}: {error}") from error


@dataclass
class ServiceSyncer:
    """Performs the service controller's actions. Each method reports a failure by an Event.

    Then the method raises :class:`ServiceNotSynced`. ``statuses`` delays repeated writes of a status that the
    API server doesn't accept.
    """

    cloud: LoadBalancers
    transport: Transport
    recorder: Recorder
    metrics: ServiceMetrics
    nodes: Callable[[], Sequence[Node]]
    statuses: EffectBackoff = field(default_factory=EffectBackoff)
    _orphans: frozenset[Orphan] = frozenset()

    async def ensure(self, cached: CachedService, nodes: list[Node], *, announced: bool) -> int:
        """Create or update the load balancer; returns the number of steps. ``announced`` forces an Event."""
        service = cached.service
        if announced:
            self.report_normal(service, "EnsuringLoadBalancer", "Ensuring load balancer")
        async with self._report_failure(service, "SyncLoadBalancerFailed", _SYNCING):
            async with _error_context("failed to add load balancer cleanup finalizer"):
                service = await add_finalizer(self.transport, service)
            async with _error_context("failed to ensure load balancer"):
                result = await self._call(cached, service, nodes)
            if result is None:
                return 0
            status_changed = await self._write_status(cached, service, status_of(result.ingress))
        if not nodes and (announced or result.steps):
            self.report_warning(service, "UnAvailableLoadBalancer", why_none(self.nodes()))
        if announced or result.steps or status_changed:
            self.report_normal(service, "EnsuredLoadBalancer", "Ensured load balancer")
        return len(result.steps)

    async def update_hosts(self, cached: CachedService, nodes: list[Node]) -> None:
        """Update the targets of the load balancer of an unchanged Service."""
        started = loop_time()
        self.metrics.host_syncs.inc()
        text = (
            f"Error updating load balancer with new hosts [{names_for_people(nodes)}] "
            f"[node names limited, total number of nodes: {len(nodes)}], error"
        )
        try:
            async with self._report_failure(cached.service, "UpdateLoadBalancerFailed", text):
                result = await self._call(cached, cached.service, nodes)
                if result is not None:
                    await self._write_status(cached, cached.service, status_of(result.ingress))
        except ServiceNotSynced:
            self.metrics.node_sync_errors.inc()
            raise
        finally:
            self.metrics.host_latency.observe(loop_time() - started)
            self.metrics.node_sync_latency.observe(loop_time() - (cached.due or started))
        if not nodes:
            self.report_warning(cached.service, "UnAvailableLoadBalancer", why_none(self.nodes()))
        elif result is not None and result.steps:
            self.report_normal(cached.service, "UpdatedLoadBalancer", "Updated load balancer with new hosts")

    async def release(self, service: Service) -> None:
        """Delete the load balancer, then remove the finalizer."""
        async with self._report_failure(service, "SyncLoadBalancerFailed", _SYNCING):
            result = await self._delete(service)
            try:
                if service.metadata.deletion_timestamp is None:
                    async with _error_context("failed to update load balancer status"):
                        service = await write_status(self.transport, service, ())
                await self._remove_finalizer(service)
            except NotFound:
                log.info("service_vanished", service=service.metadata.key)
        log.info("load_balancer_released", service=service.metadata.key, steps=list(result.steps))

    async def abandon(self, old: Service, successor: Service | None) -> None:
        """Delete the load balancer of a Service that was deleted before the cleanup, or is no longer ours.

        ``successor`` has this name now. If it is the same Service, only our finalizer is removed from it.
        """
        async with self._report_failure(old, "DeleteLoadBalancerFailed", "Error deleting load balancer"):
            await self._delete(old)
        if successor is not None and successor.metadata.uid == old.metadata.uid:
            async with self._report_failure(successor, "SyncLoadBalancerFailed", _SYNCING):
                try:
                    await self._remove_finalizer(successor)
                except NotFound:
                    log.info("service_vanished", service=successor.metadata.key)

    async def read(self, service: Service) -> Service | None:
        """Read a Service by a list request, which the official CCM's role permits; None = deleted."""
        metadata = service.metadata
        unknown = f"can't determine whether service {metadata.key} is gone"
        pages = self.transport.list_pages(services_path(metadata.namespace), Service, name=metadata.name)
        try:
            async with aclosing(pages):
                found = [page async for page in pages]
        except KubernetesError as error:
            raise ServiceNotSynced(f"{unknown}: {error}") from error
        if any(page.undecodable for page in found):
            raise ServiceNotSynced(f"{unknown}: the object with this name can't be decoded")
        return next((item for page in found for item in page.items), None)

    def report_normal(self, service: Service, reason: str, message: str) -> None:
        """Record an Event of type Normal."""
        self.recorder.event(reference_to(service), "Normal", reason, message)

    def report_warning(self, service: Service, reason: str, message: str) -> None:
        """Record an Event of type Warning."""
        self.recorder.event(reference_to(service), "Warning", reason, message)

    def report_postponed(self, service: Service, seconds: float) -> None:
        """Report that the rate limiter delays an update."""
        log.warning("service_changes_too_often", service=service.metadata.key, next_change_in=round(seconds))
        text = (
            "Too many changes to this Service or to other Services in its namespace: the next update runs in "
        )
        self.report_normal(service, "LoadBalancerChangePostponed", f"{text}{seconds:.0f} s")

    def report_orphans(self, found: Iterable[Orphan]) -> None:
        """Report leftovers of deleted Services, each once, in an Event for the former Service."""
        now = frozenset(found)
        self.metrics.orphans.set(len(now))
        for orphan in sorted(now - self._orphans, key=lambda orphan: orphan.what):
            log.warning("load_balancer_orphaned", what=orphan.what, uid=orphan.uid)
            if not orphan.name:
                continue  # the name of the Service is unknown
            text = (
                f"{orphan.what} was created for this Service, but the Service no longer uses "
                "this resource. If nothing else uses the resource, delete the resource"
            )
            reference = ObjectReference(
                api_version="v1", kind="Service", namespace=orphan.namespace, name=orphan.name, uid=orphan.uid
            )
            self.recorder.event(reference, "Warning", "LoadBalancerOrphaned", text)
        self._orphans = now

    @asynccontextmanager
    async def _report_failure(self, service: Service, reason: str, text: str) -> AsyncGenerator[None, None]:
        """Report a failure by an Event for the Service, and raise ServiceNotSynced for the queue."""
        try:
            yield
        except (CloudError, KubernetesError, ServiceNotSynced) as error:
            self.report_warning(service, reason, f"{text}: {error}")
            raise ServiceNotSynced(f"{service.metadata.key}: {error}") from error

    async def _call(
        self, cached: CachedService, service: Service, nodes: list[Node]
    ) -> LoadBalancerResult | None:
        """Call the cloud to ensure the load balancer; None = another controller is responsible."""
        view = view_of(cached.service, hosts_excluded=not nodes and bool(self.nodes()))
        try:
            result = await self.cloud.ensure(view, [node_view(node) for node in nodes])
        except ImplementedElsewhere:
            return None
        except CloudError as error:
            self._notify(cached, error.notices)
            if error.ingress:  # a port that can't be served doesn't affect the others
                await self._write_status(cached, service, status_of(error.ingress))
            raise
        self._notify(cached, result.notices)
        if result.steps:
            log.info("load_balancer_changed", service=cached.service.metadata.key, steps=list(result.steps))
        return result

    def _notify(self, cached: CachedService, notices: Iterable[Notice]) -> None:
        """Report each new notice of the cloud once."""
        current = list(notices)
        reference = reference_to(cached.service)
        report(self.recorder, reference, [notice for notice in current if notice not in cached.notices])
        cached.notices = frozenset(current)

    async def _delete(self, service: Service) -> LoadBalancerResult:
        view = view_of(service)
        async with _error_context("failed to check if load balancer exists before cleanup"):
            found = await self.cloud.find(view)
        if found is not None:
            self.report_normal(service, "DeletingLoadBalancer", "Deleting load balancer")
        try:
            async with _error_context("failed to delete load balancer"):
                # Even without a load balancer, because certificates may remain.
                result = await self.cloud.delete(view)
        except ImplementedElsewhere:
            result = LoadBalancerResult(())
        report(self.recorder, reference_to(service), result.notices)
        if result.steps:
            self.report_normal(service, "DeletedLoadBalancer", "Deleted load balancer")
        return result

    async def _remove_finalizer(self, service: Service) -> None:
        async with _error_context("failed to remove load balancer cleanup finalizer"):
            await remove_finalizer(self.transport, service)

    async def _write_status(
        self, cached: CachedService, service: Service, ingress: tuple[LoadBalancerIngress, ...]
    ) -> bool:
        """Write the status if it differs; returns whether it did."""
        cached.ingress, uid = ingress, service.metadata.uid
        if service.status.load_balancer.ingress == ingress:
            self.statuses.forget(uid, _STATUS)
            return False
        if (wait := self.statuses.wait(uid, _STATUS, loop_time(), ingress)) > 0:
            raise StatusRefused(wait)
        async with _error_context("failed to update load balancer status"):
            try:
                written = await write_status(self.transport, service, ingress)
            except NotFound:
                return False  # deleted meanwhile: the informer requeues the key
            except (Forbidden, Invalid):
                self.statuses.tried(uid, _STATUS, loop_time(), ingress)
                raise
        if written.status.load_balancer.ingress != ingress:
            self.statuses.tried(uid, _STATUS, loop_time(), ingress)
            raise StatusRefused(self.statuses.wait(uid, _STATUS, loop_time(), ingress))
        return True


def services_path(namespace: str) -> str:
    """The path of a namespace's Services in the API."""
    return f"/api/v1/namespaces/{namespace}/services"


async def add_finalizer(transport: Transport, service: Service) -> Service:
    """Add our finalizer; sends no request if it exists."""
    if CLEANUP_FINALIZER in service.metadata.finalizers:
        return service
    order = [*service.metadata.finalizers, CLEANUP_FINALIZER]
    metadata: dict[str, Any] = {"finalizers": [CLEANUP_FINALIZER], "$setElementOrder/finalizers": order}
    return await _patch(transport, service, {"metadata": metadata})


async def remove_finalizer(transport: Transport, service: Service) -> Service:
    """Remove our finalizer; sends no request if it is missing."""
    if CLEANUP_FINALIZER not in service.metadata.finalizers:
        return service
    kept = [finalizer for finalizer in service.metadata.finalizers if finalizer != CLEANUP_FINALIZER]
    metadata: dict[str, Any] = {
        "$deleteFromPrimitiveList/finalizers": [CLEANUP_FINALIZER],
        "$setElementOrder/finalizers": kept,
    }
    return await _patch(transport, service, {"metadata": metadata})


async def write_status(
    transport: Transport, service: Service, ingress: tuple[LoadBalancerIngress, ...]
) -> Service:
    """Write the addresses into the status; sends no request if the status is the same."""
    if service.status.load_balancer.ingress == ingress:
        return service
    entries = [to_wire(entry) for entry in ingress] or None
    return await _patch(transport, service, {"status": {"loadBalancer": {"ingress": entries}}})


async def _patch(transport: Transport, service: Service, body: dict[str, Any]) -> Service:
    metadata = {**body.get("metadata", {}), "uid": service.metadata.uid}
    path = f"{services_path(service.metadata.namespace)}/{service.metadata.name}/status"
    return await transport.patch(
        path, {**body, "metadata": metadata}, Service, content_type=STRATEGIC_MERGE_PATCH
    )


def view_of(service: Service, *, hosts_excluded: bool = False) -> ServiceView:
    """The part of a Service that a cloud gets; ``hosts_excluded``: see :class:`~ccm.cloud.ServiceView`."""
    metadata, spec = service.metadata, service.spec
    return ServiceView(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        annotations=metadata.annotations,
        ports=tuple(
            ServicePort(port.port, port.node_port, port.protocol, port.name)
            for port in spec.ports[:MAX_PORTS]
        ),
        external_traffic_policy=spec.external_traffic_policy or "Cluster",
        health_check_node_port=spec.health_check_node_port,
        source_ranges=spec.load_balancer_source_ranges,
        load_balancer_ip=spec.load_balancer_ip,
        ip_families=spec.ip_families,
        session_affinity=spec.session_affinity or "None",
        load_balancer_class=spec.load_balancer_class or "",
        addresses=tuple(entry.ip or entry.hostname for entry in service.status.load_balancer.ingress),
        hosts_excluded=hosts_excluded,
    )


def status_of(ingress: tuple[Ingress, ...]) -> tuple[LoadBalancerIngress, ...]:
    """Convert a cloud's result to a Service's status, with the API server's default for the mode."""
    return tuple(
        LoadBalancerIngress(
            ip=entry.ip, hostname=entry.hostname, ip_mode=entry.ip_mode or ("VIP" if entry.ip else None)
        )
        for entry in ingress
    )
