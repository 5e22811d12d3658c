"""How old a picture of the network may be that routes are changed from."""

import asyncio

import pytest
from fake_cluster import Cluster

from ccm.cloud import INTERNAL_IP, Route, RouteTable
from ccm.controllers.route import RouteController, RouteOptions, parse_cluster_cidrs
from ccm.testing.fake_cloud import FakeRoutes, Script

pytestmark = pytest.mark.looptime

OPTIONS = RouteOptions(parse_cluster_cidrs("10.244.0.0/16"))


class Pictures(FakeRoutes):
    """A network that answers from its last picture where that is young enough."""

    def __init__(self) -> None:
        super().__init__(Script())
        self.taken: list[float] = []
        self._picture = self.table

    async def list(self, *, accepted_age: float) -> RouteTable:
        now = asyncio.get_running_loop().time()
        if not self.taken or now - self.taken[-1] > accepted_age:
            self.taken.append(now)
            self._picture = self.table
            await asyncio.sleep(0.5)
        return self._picture


async def add(cluster: Cluster, routes: Pictures, number: int) -> None:
    routes.attach(f"fake://{number}", f"server-{number}", f"10.0.0.{number}")
    cidr = f"10.244.{number}.0/24"
    spec = {"podCIDR": cidr, "podCIDRs": [cidr]}
    addresses = ((INTERNAL_IP, f"10.0.0.{number}"),)
    await cluster.add_node(f"n{number}", provider_id=f"fake://{number}", spec=spec, addresses=addresses)


def controller(cluster: Cluster, routes: Pictures) -> RouteController:
    return RouteController(routes, cluster.transport, cluster.nodes, cluster.events, OPTIONS)


async def test_a_picture_of_this_run_serves_for_changes(cluster: Cluster) -> None:
    routes = Pictures()
    await add(cluster, routes, 1)
    await controller(cluster, routes).reconcile()
    assert routes.table.routes == (Route("10.244.1.0/24", "10.0.0.1"),)
    assert len(routes.taken) == 1


async def test_one_of_an_earlier_run_does_not(cluster: Cluster) -> None:
    routes = Pictures()
    made = controller(cluster, routes)
    await add(cluster, routes, 1)
    await made.reconcile()
    await asyncio.sleep(1)
    await add(cluster, routes, 2)
    await made.reconcile()
    assert Route("10.244.2.0/24", "10.0.0.2") in routes.table.routes
    assert len(routes.taken) == 2
