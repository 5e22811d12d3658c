"""The routes of one Hetzner Cloud network.

Every change locks the network for a moment, so changes run one after the other, and wait for their actions.
If the response to a change is lost, the network is read again, to check whether the change took effect.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec

from ccm.cloud import CloudBusy, CloudError, CloudUnavailable, Machine, Rejected, Route, RouteTable
from ccm.hetzner import provider_id
from ccm.hetzner.api import HetznerApi, ListCache, Priority
from ccm.hetzner.api.api_errors import NotFound
from ccm.hetzner.api.models import Network, NetworkRoute, Server
from ccm.hetzner.official_metrics import OfficialMetrics
from ccm.hetzner.project import Project
from ccm.hetzner.servers import node_of

LIMIT = 100  # routes in a network, found by experiment, because the API doesn't report the limit
TRIES = 6
PAUSE = 1.0  # seconds before the first retry for a locked network; later delays are longer


class HetznerRoutes:
    """Implements :class:`ccm.cloud.Routes` for the network of this ID.

    ``scheme`` is the prefix of provider IDs of Cloud servers. ``name_check``: a server belongs only to the
    Node that :func:`~ccm.hetzner.servers.node_of` names.
    """

    def __init__(
        self,
        api: HetznerApi,
        servers: ListCache[Server],
        network: int,
        scheme: str,
        *,
        name_check: bool = True,
        project: Project,
        metrics: OfficialMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._servers = servers
        self._id = network
        self._scheme = scheme
        self._name_check = name_check
        self._project = project
        self._metrics = metrics
        self._clock = clock
        self._network: Network | None = None
        self._read_at, self._read_with = 0.0, 0
        self._writing = asyncio.Lock()

    def owns(self, provider_id_: str) -> bool:
        """See :meth:`ccm.cloud.Routes.owns`; Robot servers have no routes."""
        is_robots = provider_id_.startswith(provider_id.LEGACY_ROBOT_PREFIX)
        return provider_id_.startswith(self._scheme) and not is_robots

    def normalized(self, provider_id_: str) -> str:
        """See :class:`ccm.cloud.NormalizesProviderIds`: a kubelet may be given ``hcloud://0123``."""
        try:
            machine = provider_id.parse(provider_id_, self._scheme)
        except CloudError:
            return provider_id_
        return f"{self._scheme}{machine.number}" if machine.kind == "cloud" else provider_id_

    async def list(self, *, accepted_age: float) -> RouteTable:
        """See :meth:`ccm.cloud.Routes.list`."""
        self._metrics.operation("hcloud/ListRoutes")
        with self._api.token.hold():
            network = self._network
            old = self._clock() - self._read_at > accepted_age
            if network is None or old or self._read_with != self._api.token.number:
                network = await self._read()
            machines, complete = await self._machines(network, accepted_age)
            if not complete and accepted_age > 0:
                machines, complete = await self._machines(network, 0)
        routes = tuple(Route(route.destination, route.gateway) for route in network.routes)
        return RouteTable(routes, machines, complete, limit=LIMIT)

    async def create(self, route: Route) -> None:
        """See :meth:`ccm.cloud.Routes.create`."""
        self._metrics.operation("hcloud/CreateRoute")
        if ":" in route.destination:
            raise Rejected(f"Hetzner Cloud networks can't route IPv6 ({route.destination})")
        async with self._writing:
            await self._change("add_route", route, wanted=True)

    async def delete(self, route: Route) -> None:
        """See :meth:`ccm.cloud.Routes.delete`."""
        self._metrics.operation("hcloud/DeleteRoute")
        async with self._writing:
            await self._change("delete_route", route, wanted=False)

    async def _change(self, command: str, route: Route, *, wanted: bool) -> None:
        path = f"/networks/{self._id}/actions/{command}"
        body = {"destination": route.destination, "gateway": route.gateway}
        changed = NetworkRoute(**body)
        for attempt in range(TRIES):
            try:
                with self._api.token.hold():
                    action = await self._api.act(path, body, priority=Priority.ROUTES)
                    await self._api.wait(action, priority=Priority.ROUTES)
            except CloudBusy:
                if attempt == TRIES - 1:
                    raise
                await asyncio.sleep(PAUSE * (attempt + 1))
            except (Rejected, CloudUnavailable):
                # The network may already have the desired state, or only the response may be lost.
                network = await self._read()
                if (changed in network.routes) is not wanted:
                    raise
                return
            else:
                self._remember(changed, wanted=wanted)
                return

    def _remember(self, route: NetworkRoute, *, wanted: bool) -> None:
        """Update the cached network after our own change."""
        if self._network is not None:
            others = tuple(other for other in self._network.routes if other != route)
            routes = (*others, route) if wanted else others
            self._network = msgspec.structs.replace(self._network, routes=routes)

    async def _read(self) -> Network:
        started = self._clock()
        try:
            network = await self._get()
        except NotFound:
            if not await self._project.is_replaced():
                raise self._project.deny() from None
            self._id = self._project.network or self._id
            network = await self._get()
        self._project.confirm(0.0)
        self._network, self._read_at, self._read_with = network, started, self._api.token.number
        return network

    async def _get(self) -> Network:
        return await self._api.get(f"/networks/{self._id}", "network", Network, priority=Priority.ROUTES)

    async def _machines(self, network: Network, accepted_age: float) -> tuple[dict[str, Machine], bool]:
        """The machines in the network by address, and whether they include all servers of the network."""
        age = self._servers.age
        self._metrics.lookup("routes", hit=age is not None and age <= accepted_age)
        contents = await self._servers.read(accepted_age, Priority.ROUTES)
        machines: dict[str, Machine] = {}
        found: set[int] = set()
        for server in contents.by_id.values():
            address = server.private_ip(self._id)
            if address is not None:
                found.add(server.id)
                name = f"{self._scheme}{server.id}"
                node = node_of(server) if self._name_check else ""
                machines[address] = Machine(name, server.name, address, node)
        return machines, set(network.servers) <= found
