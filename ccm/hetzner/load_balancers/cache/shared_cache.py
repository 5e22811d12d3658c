"""Combines the caches that all Services share."""

from collections.abc import Awaitable, Callable, Mapping

from ccm.hetzner.api import HetznerApi, ListCache
from ccm.hetzner.api.models import Location, Server
from ccm.hetzner.load_balancers.cache.catalogue import AddressCache, Catalogue, PrimaryIpCache
from ccm.hetzner.load_balancers.cache.certificate_cache import CertificateCache
from ccm.hetzner.load_balancers.cache.inventory import Inventory
from ccm.hetzner.load_balancers.cache.server_cache import ServerCache
from ccm.hetzner.load_balancers.metrics import LoadBalancerMetrics
from ccm.hetzner.project import Project
from ccm.hetzner.settings import LoadBalancerSettings


class SharedCache:
    """All caches for load balancers.

    ``scheme``, ``name_check`` and ``robots`` are as for :class:`ServerCache`.
    """

    def __init__(
        self,
        api: HetznerApi,
        servers: ListCache[Server],
        settings: LoadBalancerSettings,
        *,
        project: Project,
        scheme: str,
        locations: ListCache[Location],
        name_check: bool = True,
        robots: Callable[[], Awaitable[Mapping[int, str]]] | None = None,
        metrics: LoadBalancerMetrics,
    ) -> None:
        self.inventory = Inventory(api, project, metrics)
        self.addresses = AddressCache(api, servers, self.inventory.balancers)
        self.catalogue = Catalogue(api, locations, metrics)
        self.servers = ServerCache(servers, scheme, robots, name_check=name_check)
        self.certificates = CertificateCache(api, settings.cluster)
        self.primary_ips = PrimaryIpCache(api)
        self.cluster = settings.cluster
        self.tenants = settings.tenants

    async def close(self) -> None:
        """Stop running reads."""
        await self.inventory.balancers.close()
        await self.catalogue.close()
        await self.certificates.cached.close()
        await self.primary_ips.cached.close()
