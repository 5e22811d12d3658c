"""Writes to a Service: the finalizer and the status, both through ``/status`` as upstream does.

The UID stands in every patch: a Service that was deleted and made anew under the same name is refused.
"""

from __future__ import annotations

from typing import Any

from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.service.policy import has_finalizer
from ccm.kube.objects import LoadBalancerIngress, Service, to_wire
from ccm.kube.protocol import STRATEGIC_MERGE_PATCH, Transport


def services_path(namespace: str) -> str:
    """Where the Services of a namespace stand in the API."""
    return f"/api/v1/namespaces/{namespace}/services"


async def add_finalizer(transport: Transport, service: Service) -> Service:
    """Promise to clean up; no request if that was promised already."""
    if has_finalizer(service):
        return service
    order = [*service.metadata.finalizers, CLEANUP_FINALIZER]
    metadata: dict[str, Any] = {"finalizers": [CLEANUP_FINALIZER], "$setElementOrder/finalizers": order}
    return await _patch(transport, service, {"metadata": metadata})


async def remove_finalizer(transport: Transport, service: Service) -> Service:
    """Let the Service go; no request if nothing holds it."""
    if not has_finalizer(service):
        return service
    kept = [one for one in service.metadata.finalizers if one != CLEANUP_FINALIZER]
    metadata: dict[str, Any] = {
        "$deleteFromPrimitiveList/finalizers": [CLEANUP_FINALIZER],
        "$setElementOrder/finalizers": kept,
    }
    return await _patch(transport, service, {"metadata": metadata})


async def write_status(
    transport: Transport, service: Service, ingress: tuple[LoadBalancerIngress, ...]
) -> Service:
    """Say where the Service is reached; no request if the status says so already."""
    if service.status.load_balancer.ingress == ingress:
        return service
    entries = [to_wire(one) for one in ingress] or None
    return await _patch(transport, service, {"status": {"loadBalancer": {"ingress": entries}}})


async def _patch(transport: Transport, service: Service, body: dict[str, Any]) -> Service:
    metadata = {**body.get("metadata", {}), "uid": service.metadata.uid}
    path = f"{services_path(service.metadata.namespace)}/{service.metadata.name}/status"
    return await transport.patch(
        path, {**body, "metadata": metadata}, Service, content_type=STRATEGIC_MERGE_PATCH
    )
