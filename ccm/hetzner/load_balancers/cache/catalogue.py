"""Types, locations, private addresses and Primary IPs. All methods raise ``CloudError`` if unknown."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ccm.hetzner.api import HetznerApi, ListCache, Priority, cache_of
from ccm.hetzner.api.models import (
    LoadBalancer,
    LoadBalancerType,
    Location,
    Network,
    PrimaryIp,
    Server,
    Subnet,
)
from ccm.hetzner.load_balancers.cache.inventory import LIST_AGE
from ccm.hetzner.load_balancers.cache.server_cache import SERVERS_AGE
from ccm.hetzner.load_balancers.metrics import LoadBalancerMetrics
from ccm.hetzner.load_balancers.ownership_labels import DEFAULT_TYPE, Ownership
from ccm.hetzner.load_balancers.spec import LoadBalancerSpec

AGE = 3600.0
AGE_AFTER_MISS = 1.0


class Catalogue:
    """One list of types and one of locations for all Services."""

    def __init__(self, api: HetznerApi, locations: ListCache[Location], metrics: LoadBalancerMetrics) -> None:
        self._metrics = metrics
        self._types = cache_of(api, "load_balancer_types", LoadBalancerType)
        self._locations = locations
        self._invalid = False

    def invalidate(self) -> None:
        """Make the next call read the types again, because a limit may have changed."""
        self._invalid = True

    async def close(self) -> None:
        """Stop running reads."""
        await self._types.close()
        await self._locations.close()

    async def types(
        self, spec: LoadBalancerSpec, balancer: LoadBalancer | None, ownership: Ownership
    ) -> Mapping[str, LoadBalancerType]:
        """The load balancer types by name; empty if the load balancer keeps its type."""
        if balancer is not None:
            name = balancer.load_balancer_type.name
            goes_back = "type" in ownership.settings and name != DEFAULT_TYPE
            if spec.type in ((name,) if goes_back else (name, "")):
                return {}
        age = self._types.age
        self._metrics.official.type_lookup(hit=age is not None and age <= AGE)
        accepted = AGE_AFTER_MISS if self._invalid else AGE
        found = (await self._types.read(accepted, Priority.LOAD_BALANCERS)).by_name
        self._invalid = False
        if spec.type and spec.type not in found:
            found = (await self._types.read(AGE_AFTER_MISS, Priority.LOAD_BALANCERS)).by_name
        return found

    async def locations(self, spec: LoadBalancerSpec) -> Collection[Location]:
        """All locations, if one is requested. Reads the list again if the requested one is missing."""
        known: Collection[Location] = ()
        for age in (AGE, AGE_AFTER_MISS) if spec.has_placement else ():
            known = tuple((await self._locations.read(age, Priority.LOAD_BALANCERS)).by_id.values())
            if spec.location in {location.name for location in known} or (
                not spec.location and spec.network_zone in {location.network_zone for location in known}
            ):
                break
        return known


@dataclass(frozen=True, slots=True)
class ObservedAddresses:
    """The addresses of the private network."""

    subnets: tuple[Subnet, ...] = ()
    # descriptions of the users by address, except the load balancer itself
    taken: Mapping[str, str] = field(default_factory=dict[str, str])


class AddressCache:
    """Finds the used addresses of a network."""

    def __init__(
        self, api: HetznerApi, servers: ListCache[Server], balancers: ListCache[LoadBalancer]
    ) -> None:
        self._api = api
        self._servers = servers
        self._balancers = balancers

    async def look_up(
        self, spec: LoadBalancerSpec, balancer: LoadBalancer | None, network: int | None
    ) -> ObservedAddresses | None:
        """Return the addresses in the network if the load balancer would release its address for another one.

        The CCM detaches a load balancer before it attaches it again. If Hetzner refused the new address, the
        old one would be lost. Returns None if no address is released, or if annotations are wrong.
        """
        asked = bool(spec.private_ipv4 or spec.ip_range) and not spec.problems
        if network is None or balancer is None or not balancer.private_net or not asked:
            return None
        if balancer.is_in(network, spec.private_ipv4):
            return None
        priority = Priority.LOAD_BALANCERS
        found = await self._api.get(f"/networks/{network}", "network", Network, priority=priority)
        taken = {subnet.gateway: "the network's gateway" for subnet in found.subnets if subnet.gateway}
        servers = (await self._servers.read(SERVERS_AGE, priority)).by_id.values()
        balancers = (await self._balancers.read(LIST_AGE, priority)).by_id.values()
        members = [
            *((f"server {server.name} ({server.id})", server.private_net) for server in servers),
            *(
                (f"load balancer {other.name} ({other.id})", other.private_net)
                for other in balancers
                if other.id != balancer.id
            ),
        ]
        for who, nets in members:
            for net in nets:
                if net.network == network:
                    taken |= dict.fromkeys((net.ip, *net.alias_ips), who)
        return ObservedAddresses(found.subnets, taken)


PRIMARY_IP_AGE = 300.0  # only for Events
AGE_FOR_NEW = 0.0  # another load balancer may just have released the Primary IP


class PrimaryIpCache:
    """Finds the Primary IPs that Services name."""

    def __init__(self, api: HetznerApi) -> None:
        self.cached = cache_of(api, "primary_ips", PrimaryIp)

    async def look_up(
        self, spec: LoadBalancerSpec, balancer: LoadBalancer | None
    ) -> Mapping[str, PrimaryIp | None]:
        """Return the requested Primary IPs by family (``ipv4``, ``ipv6``); None if the project lacks one.

        Omits Primary IPs that are already assigned to the load balancer ``balancer``.
        """
        asked = {
            family: reference
            for family, reference in spec.primary_ips.items()
            if balancer is None or reference != str(balancer.public_net.of(family).id)
        }
        if not asked or (balancer is None and spec.problems):
            return {}
        known = await self.cached.read(PRIMARY_IP_AGE if balancer else AGE_FOR_NEW, Priority.LOAD_BALANCERS)
        return {
            # The ID first, because a name may be the ID of another Primary IP.
            family: known.by_id.get(int(one) if one.isascii() and one.isdigit() else 0)
            or known.by_name.get(one)
            for family, one in asked.items()
        }
