"""Routes: the network sends packets for a Pod to the Pod's node."""

from ccm.cloud import Machine, Route, RouteTable
from hcloud import Client
from hcloud.networks import BoundNetwork, NetworkRoute

from api import call
from instances import SCHEME, private_ip_of, provider_id_of


class Routes:
    def __init__(self, client: Client, network: BoundNetwork) -> None:
        self.client = client
        self.network = network

    def owns(self, provider_id: str) -> bool:
        return provider_id.startswith(SCHEME)

    async def list(self, *, accepted_age: float) -> RouteTable:
        return await call(self.read)

    async def create(self, route: Route) -> None:
        await call(self.add, route)

    async def delete(self, route: Route) -> None:
        await call(self.remove, route)

    def read(self) -> RouteTable:
        self.network.reload()
        routes = tuple(Route(each.destination, each.gateway) for each in self.network.routes)
        machines: dict[str, Machine] = {}
        for server in self.client.servers.get_all():
            if ip := private_ip_of(server, self.network):
                machines[ip] = Machine(provider_id_of(server), server.name, ip, node=server.name)
        return RouteTable(routes, machines)

    def add(self, route: Route) -> None:
        if route not in self.read().routes:
            wanted = NetworkRoute(route.destination, route.gateway)
            self.network.add_route(wanted).wait_until_finished()

    def remove(self, route: Route) -> None:
        if route in self.read().routes:
            unwanted = NetworkRoute(route.destination, route.gateway)
            self.network.delete_route(unwanted).wait_until_finished()
