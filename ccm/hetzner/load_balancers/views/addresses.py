"""Which addresses of the private network are free, for a load balancer that is to change its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ccm.hetzner.api import HetznerApi, Priority, View
from ccm.hetzner.api.wire import LoadBalancer, Network, Server, Subnet
from ccm.hetzner.load_balancers.views.inventory import VIEW_AGE
from ccm.hetzner.load_balancers.views.servers import SERVERS_AGE
from ccm.hetzner.load_balancers.wishes import Wishes


@dataclass(frozen=True, slots=True)
class AddressFacts:
    """The addresses of the private network.

    Attributes:
        subnets: The network's.
        taken: By address, who has it, in words; the load balancer itself does not count.
    """

    subnets: tuple[Subnet, ...] = ()
    taken: Mapping[str, str] = field(default_factory=dict[str, str])


class Addresses:
    """Finds out who has which address.

    Args:
        servers: The shared view of servers.
        balancers: The shared view of load balancers.
    """

    def __init__(self, api: HetznerApi, servers: View[Server], balancers: View[LoadBalancer]) -> None:
        self._api = api
        self._servers = servers
        self._balancers = balancers

    async def look_up(
        self, wishes: Wishes, balancer: LoadBalancer | None, network: int | None
    ) -> AddressFacts | None:
        """Have known what there is, where a load balancer gives its address up for one that is asked for.

        A network is left before one is entered, so what is refused then would cost the address that it has.

        Returns:
            The addresses; None = it gives none up, or its annotations are wrong, and nothing is read.

        Raises:
            CloudError: They are not known.
        """
        asked = bool(wishes.private_ipv4 or wishes.ip_range) and not wishes.problems
        if network is None or balancer is None or not balancer.private_net or not asked:
            return None
        if balancer.is_in(network, wishes.private_ipv4):
            return None
        priority = Priority.LOAD_BALANCERS
        found = await self._api.get(f"/networks/{network}", "network", Network, priority=priority)
        taken = {one.gateway: "the network's gateway" for one in found.subnets if one.gateway}
        servers = (await self._servers.read(SERVERS_AGE, priority)).by_id.values()
        balancers = (await self._balancers.read(VIEW_AGE, priority)).by_id.values()
        members = [
            *((f"server {one.name} ({one.id})", one.private_net) for one in servers),
            *(
                (f"load balancer {one.name} ({one.id})", one.private_net)
                for one in balancers
                if one.id != balancer.id
            ),
        ]
        for who, nets in members:
            for net in nets:
                if net.network == network:
                    taken |= dict.fromkeys((net.ip, *net.alias_ips), who)
        return AddressFacts(found.subnets, taken)
