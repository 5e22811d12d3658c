"""Removes the load balancer of a Service that wants none any more, or is gone."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

import structlog

from ccm.cloud import ImplementedElsewhere, LoadBalancerResult, LoadBalancers
from ccm.controllers.service.announcer import Announcer, ServiceNotSynced, saying
from ccm.controllers.service.patches import remove_finalizer, services_path, write_status
from ccm.controllers.service.policy import view_of
from ccm.kube.errors import KubernetesError, NotFound
from ccm.kube.objects import Service
from ccm.kube.protocol import Transport

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True)
class Cleanup:
    """Removes load balancers, and holds a Service by our finalizer until nothing is left."""

    cloud: LoadBalancers
    transport: Transport
    announcer: Announcer

    async def release(self, service: Service) -> None:
        """Remove the load balancer, then let the Service go.

        Raises:
            ServiceNotSynced: Something is left; the Service is held.
        """
        text = "Error syncing load balancer"
        async with self.announcer.failing_as(service, "SyncLoadBalancerFailed", text):
            result = await self._delete(service)
            try:
                if service.metadata.deletion_timestamp is None:
                    async with saying("failed to update load balancer status"):
                        service = await write_status(self.transport, service, ())
                async with saying("failed to remove load balancer cleanup finalizer"):
                    await remove_finalizer(self.transport, service)
            except NotFound:
                log.info("service_vanished", service=service.metadata.key)
        log.info("load_balancer_released", service=service.metadata.key, steps=list(result.steps))

    async def abandon(self, service: Service) -> None:
        """Remove the load balancer of a Service that is gone without our consent.

        Raises:
            ServiceNotSynced: Something is left.
        """
        text = "Error deleting load balancer"
        async with self.announcer.failing_as(service, "DeleteLoadBalancerFailed", text):
            await self._delete(service)

    async def let_go(self, service: Service) -> None:
        """Hold a Service no longer that is another controller's by now; its status is theirs.

        Raises:
            ServiceNotSynced: It is still held.
        """
        text = "Error syncing load balancer"
        async with self.announcer.failing_as(service, "SyncLoadBalancerFailed", text):
            try:
                async with saying("failed to remove load balancer cleanup finalizer"):
                    await remove_finalizer(self.transport, service)
            except NotFound:
                log.info("service_vanished", service=service.metadata.key)

    async def read(self, service: Service) -> Service | None:
        """What the API server has under a Service's name; None = nothing.

        It is listed, because the official CCM's role gives the right to that and not to get it.

        Raises:
            ServiceNotSynced: Not known.
        """
        metadata = service.metadata
        unknown = f"can't tell whether service {metadata.key} is gone"
        pages = self.transport.list_pages(services_path(metadata.namespace), Service, name=metadata.name)
        try:
            async with aclosing(pages):
                found = [page async for page in pages]
        except KubernetesError as error:
            raise ServiceNotSynced(f"{unknown}: {error}") from error
        if any(page.odd for page in found):
            raise ServiceNotSynced(f"{unknown}: what has its name makes no sense")
        return next((item for page in found for item in page.items), None)

    async def _delete(self, service: Service) -> LoadBalancerResult:
        view = view_of(service)
        async with saying("failed to check if load balancer exists before cleanup"):
            found = await self.cloud.find(view)
        if found is not None:
            self.announcer.tell(service, "DeletingLoadBalancer", "Deleting load balancer")
        try:
            async with saying("failed to delete load balancer"):
                # Even without a load balancer: certificates may be left of it.
                result = await self.cloud.delete(view)
        except ImplementedElsewhere:
            result = LoadBalancerResult(())
        self.announcer.report(service, result.notices)
        if result.steps:
            self.announcer.tell(service, "DeletedLoadBalancer", "Deleted load balancer")
        return result
