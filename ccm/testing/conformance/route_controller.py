"""How the route controller uses a cloud's routes."""

import pytest

from ccm.cloud import Route
from ccm.controllers.route import QUEUE, RouteController, RouteOptions, parse_cluster_cidrs
from ccm.testing.conformance.cluster import NODES, Cluster, impatient_queue, node_object, open_cluster
from ccm.testing.conformance.harness import Harness
from ccm.testing.conformance.routes import add_machine

CLUSTER_CIDR = "10.244.0.0/16"
OUTSIDE = "10.99.0.0/24"
_UNAVAILABLE = "NetworkUnavailable"


def _start(harness: Harness, cluster: Cluster) -> None:
    options = RouteOptions(parse_cluster_cidrs(CLUSTER_CIDR), 0.05, accepted_age=0.05)
    controller = RouteController(
        harness.routes,
        cluster.transport,
        cluster.nodes,
        cluster.recorder,
        options,
        queue=impatient_queue(QUEUE),
    )
    cluster.run(controller.run())


async def _add_node(harness: Harness, cluster: Cluster, name: str, number: int) -> Route:
    """Add a Node with its machine; returns the route that it should have."""
    machine = await add_machine(harness, name)
    cidr, address = f"10.244.{number}.0/24", machine.address
    cluster.transport.put(NODES, node_object(name, machine.provider_id, pod_cidr=cidr, internal_ip=address))
    return Route(cidr, address)


def _is_routed(cluster: Cluster, *names: str) -> bool:
    return all(cluster.conditions(name).get(_UNAVAILABLE) == "False" for name in names)


async def _routes(harness: Harness) -> set[Route]:
    return set((await harness.routes.list(accepted_age=0)).routes)


async def _until_routes(harness: Harness, cluster: Cluster, wanted: set[Route]) -> None:
    for _ in range(500):
        if await _routes(harness) == wanted:
            return
        await cluster.settle()
    assert await _routes(harness) == wanted


@pytest.mark.asyncio
class RouteControllerConformance:
    """Inherit it in a class ``Test…``."""

    async def test_every_node_gets_its_route(self, harness: Harness) -> None:
        async with open_cluster() as cluster:
            wanted = {await _add_node(harness, cluster, f"n{number}", number) for number in range(3)}
            _start(harness, cluster)
            await cluster.until(lambda: _is_routed(cluster, "n0", "n1", "n2"))
            assert await _routes(harness) == wanted

    async def test_a_route_goes_with_its_node(self, harness: Harness) -> None:
        async with open_cluster() as cluster:
            first = await _add_node(harness, cluster, "a", 1)
            await _add_node(harness, cluster, "b", 2)
            _start(harness, cluster)
            await cluster.until(lambda: _is_routed(cluster, "a", "b"))
            cluster.transport.remove(f"{NODES}/b")
            await _until_routes(harness, cluster, {first})

    async def test_a_route_outside_the_cluster_is_not_ours(self, harness: Harness) -> None:
        """It leads to one of the cluster's machines, but another client made it."""
        async with open_cluster() as cluster:
            first = await _add_node(harness, cluster, "a", 1)
            outside = Route(OUTSIDE, first.gateway)
            await harness.routes.create(outside)
            _start(harness, cluster)
            await cluster.until(lambda: _is_routed(cluster, "a"))
            await _until_routes(harness, cluster, {first, outside})

    async def test_an_unavailable_cloud_loses_no_route(self, harness: Harness) -> None:
        async with open_cluster() as cluster:
            first = await _add_node(harness, cluster, "a", 1)
            second = await _add_node(harness, cluster, "b", 2)
            _start(harness, cluster)
            await cluster.until(lambda: _is_routed(cluster, "a", "b"))
            await harness.make_unavailable()
            cluster.transport.remove(f"{NODES}/b")
            for _ in range(10):
                await cluster.settle()
            await harness.make_available()
            assert await _routes(harness) <= {first, second}
            await _until_routes(harness, cluster, {first})
