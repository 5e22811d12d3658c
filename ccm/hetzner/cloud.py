"""Hetzner Cloud as a cloud: connects the parts of this package."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from ccm.errors import ConfigurationError
from ccm.hetzner.api import ApiMetrics, Budget, HetznerApi, Priority, cache_of
from ccm.hetzner.api.api_errors import Unauthorized
from ccm.hetzner.api.models import Location, Network, Server
from ccm.hetzner.instances import HetznerInstances
from ccm.hetzner.load_balancers import HetznerLoadBalancers
from ccm.hetzner.load_balancers.cache import SharedCache
from ccm.hetzner.load_balancers.metrics import LoadBalancerMetrics
from ccm.hetzner.official_metrics import MetricsServer, OfficialMetrics
from ccm.hetzner.project import Project, check_attached, find_network, read_attached_networks
from ccm.hetzner.robot import RobotClient, RobotMachines
from ccm.hetzner.routes import HetznerRoutes
from ccm.hetzner.server_to_instance import FROM_SCRATCH, NAMINGS, InstanceOptions, ProviderNaming
from ccm.hetzner.settings import environment as env

log = structlog.stdlib.get_logger(__name__)


class HetznerCloud:
    """Implements :class:`ccm.cloud.Cloud` and :class:`ccm.cloud.ShowsEnvironment`; has routes after
    ``start``.
    """

    has_cluster_id = True

    def __init__(
        self,
        settings: env.Settings,
        *,
        naming: ProviderNaming,
        registry: CollectorRegistry,
        attached_networks: Callable[[], Awaitable[str]] = read_attached_networks,
    ) -> None:
        self.settings = settings
        self.name = naming.provider
        self.network: Network | None = None
        self.routes: HetznerRoutes | None = None
        self._dialect = naming
        self._attached_networks = attached_networks
        metrics = ApiMetrics(registry)
        self._registry = registry
        self._official = OfficialMetrics(registry, settings.instances.cache_mode)
        self.api = HetznerApi(
            token=lambda: settings.token.value,
            endpoint=settings.endpoint,
            metrics=metrics,
            budget=Budget(on_wait=metrics.waited.inc),
            debug=settings.debug,
        )
        self.servers = cache_of(self.api, "servers", Server)
        self.locations = cache_of(self.api, "locations", Location)
        self.robot = _robot(settings.robot, mass_deletion_breaker=settings.mass_deletion_breaker)
        self.project = Project(
            self.api,
            lambda: self.network.id if self.network else None,
            mass_deletion_breaker=settings.mass_deletion_breaker,
            replaced=self._follow_network,
        )
        self.instances = HetznerInstances(
            self.api,
            self.servers,
            self._dialect.scheme,
            self._describe_options,
            project=self.project,
            metrics=self._official,
            robot=self.robot,
            max_age=settings.instances.max_age,
        )
        self.load_balancers = self._open_load_balancers()
        self._metrics_server = _metrics_server(settings, naming, registry)

    async def start(self) -> None:
        """See :meth:`ccm.cloud.Cloud.start`."""
        for warning in self.settings.warnings:
            log.warning("odd_setting", why=warning)
        if self._metrics_server is not None:
            await self._metrics_server.start()
        try:
            await self.locations.read(0.0, Priority.NODES)
            await self._find_network()
        except Unauthorized as error:
            raise ConfigurationError([f"HCLOUD_TOKEN: the API rejects the token: {error.message}"]) from error

    async def close(self) -> None:
        """See :meth:`ccm.cloud.Cloud.close`."""
        if self._metrics_server is not None:
            await self._metrics_server.close()
        if self.load_balancers is not None:
            await self.load_balancers.close()
        await self.servers.close()
        await self.api.close()
        if self.robot is not None:
            await self.robot.close()

    def healthy(self) -> str | None:
        """See :meth:`ccm.cloud.Cloud.healthy`."""
        error = self.api.last_error
        if isinstance(error, Unauthorized):
            return f"the API rejects the token: {error.message}"
        return self.project.healthy() or (self.load_balancers.healthy() if self.load_balancers else None)

    def shown_environment(self) -> Mapping[str, str]:
        """See :meth:`ccm.cloud.ShowsEnvironment.shown_environment`."""
        return self.settings.shown

    async def _find_network(self) -> None:
        chosen = self.settings.network
        if not chosen.name_or_id:
            return
        self.network = await find_network(self.api, chosen.name_or_id)
        if chosen.attached_check and not self.settings.dry_run:
            await check_attached(self.network, self._attached_networks)
        if chosen.routes:
            self.routes = HetznerRoutes(
                self.api,
                self.servers,
                self.network.id,
                self._dialect.scheme,
                name_check=self.settings.instances.name_check,
                project=self.project,
                metrics=self._official,
            )

    async def _follow_network(self) -> bool:
        """Use a recreated network of the same name, if the project has a server of the deleted network."""
        name, former = self.settings.network.name_or_id, self.network
        if former is None or name == str(former.id):
            return False
        servers = await self.servers.read(0.0, Priority.NODES)
        if not any(number in servers.by_id for number in former.servers):
            return False
        try:
            found = await find_network(self.api, name)
        except ConfigurationError:
            return False
        log.warning("network_replaced", name=name, former=former.id, network=found.id)
        self.network = msgspec.structs.replace(found, servers=(*former.servers, *found.servers))
        return True

    def _open_load_balancers(self) -> HetznerLoadBalancers | None:
        chosen = self.settings.load_balancers
        if not chosen.enabled:
            return None
        metrics = LoadBalancerMetrics(self._registry, self._official)
        cache = SharedCache(
            self.api,
            self.servers,
            chosen,
            project=self.project,
            scheme=self._dialect.scheme,
            name_check=self.settings.instances.name_check,
            locations=self.locations,
            robots=self._robot_addresses if self.settings.robot.enabled else None,
            metrics=metrics,
        )
        return HetznerLoadBalancers(cache, chosen, metrics)

    async def _robot_addresses(self) -> Mapping[int, str]:
        """The public IPv4 addresses of dedicated servers; empty without credentials."""
        return await self.robot.addresses() if self.robot is not None else {}

    def _describe_options(self) -> InstanceOptions:
        chosen = self.settings.instances
        return InstanceOptions(
            naming=self._dialect,
            ipv4=chosen.address_family in {"ipv4", "dualstack"},
            ipv6=chosen.address_family in {"ipv6", "dualstack"},
            zone_label=chosen.zone_label,
            network=self.network.id if self.network else None,
            copied_labels=chosen.copied_labels,
        )


def _metrics_server(
    settings: env.Settings, naming: ProviderNaming, registry: CollectorRegistry
) -> MetricsServer | None:
    enabled = naming.official if settings.metrics_enabled is None else settings.metrics_enabled
    if not enabled or settings.dry_run or not settings.metrics_address:
        return None
    return MetricsServer(registry, settings.metrics_address)


def _robot(settings: env.RobotSettings, *, mass_deletion_breaker: bool) -> RobotMachines | None:
    if not settings.enabled or settings.user is None or settings.password is None:
        return None
    client = RobotClient(settings.endpoint, settings.user, settings.password, pause=settings.rate_limit_wait)
    return RobotMachines(
        client,
        cache_timeout=settings.cache_timeout,
        forward_internal=settings.forward_internal_ips,
        mass_deletion_breaker=mass_deletion_breaker,
    )


def open_cloud(
    environment: Mapping[str, str],
    *,
    provider: str = FROM_SCRATCH.provider,
    registry: CollectorRegistry | None = None,
) -> HetznerCloud:
    """Open Hetzner Cloud. The only I/O is to read files named in the environment.

    ``environment`` contains the official CCM's variables. ``provider`` is ``ccm-from-scratch`` or ``hcloud``.
    ``registry``: None = a new registry. Raises one ConfigurationError with all mistakes.
    """
    if provider not in NAMINGS:
        raise ConfigurationError([f"--cloud-provider: {provider!r} is not {' or '.join(NAMINGS)}"])
    settings = env.read(environment)
    return HetznerCloud(settings, naming=NAMINGS[provider], registry=registry or CollectorRegistry())
