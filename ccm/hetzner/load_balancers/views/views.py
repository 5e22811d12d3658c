"""The lists that all Services share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ccm.hetzner.api import HetznerApi, View
from ccm.hetzner.api.wire import Location, Server
from ccm.hetzner.load_balancers.status import LoadBalancerMetrics
from ccm.hetzner.load_balancers.views.catalogue import Addresses, Catalogue, PrimaryIps
from ccm.hetzner.load_balancers.views.certificates import Certificates
from ccm.hetzner.load_balancers.views.inventory import Inventory
from ccm.hetzner.load_balancers.views.servers import Servers
from ccm.hetzner.project import Project
from ccm.hetzner.settings import LoadBalancerSettings


class Views:
    """What all Services share: lists of what there is, and what was seen in them.

    Args:
        servers: The shared view of servers.
        settings: The cluster's id, and what its namespaces may do.
        project: Knows whether it is the right one.
        scheme: What provider IDs of Cloud servers start with.
        locations: The cloud's locations.
        name_check: As for :class:`Servers`.
        robots: Looks up public IPv4 addresses of dedicated servers by number; None = there are none to be.
        metrics: Counted here.
    """

    def __init__(
        self,
        api: HetznerApi,
        servers: View[Server],
        settings: LoadBalancerSettings,
        *,
        project: Project,
        scheme: str,
        locations: View[Location],
        name_check: bool = True,
        robots: Callable[[], Awaitable[Mapping[int, str]]] | None = None,
        metrics: LoadBalancerMetrics,
    ) -> None:
        self.inventory = Inventory(api, project, metrics)
        self.addresses = Addresses(api, servers, self.inventory.balancers)
        self.catalogue = Catalogue(api, locations, metrics)
        self.servers = Servers(servers, scheme, robots, name_check=name_check)
        self.certificates = Certificates(api, settings.cluster)
        self.primary_ips = PrimaryIps(api)
        self.cluster = settings.cluster
        self.tenants = settings.tenants

    async def close(self) -> None:
        """Stop reading."""
        await self.inventory.balancers.close()
        await self.catalogue.close()
        await self.certificates.view.close()
        await self.primary_ips.view.close()
