"""How the service controller uses a cloud's load balancers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.nodes import view_of
from ccm.controllers.service.controller import ServiceController
from ccm.kube.errors import NotFound
from ccm.testing.conformance.cluster import (
    NODES,
    SERVICES,
    Cluster,
    impatient_queue,
    node_object,
    open_cluster,
)
from ccm.testing.conformance.harness import Harness

_LOOKS = 500


def _start(harness: Harness, cluster: Cluster) -> None:
    controller = ServiceController(
        harness.load_balancers,
        cluster.transport,
        cluster.services,
        cluster.nodes,
        cluster.recorder,
        queue=impatient_queue("service"),
        node_queue=impatient_queue("node"),
    )
    cluster.run(controller.run())


async def _add_node(harness: Harness, cluster: Cluster, name: str) -> None:
    cluster.transport.put(NODES, node_object(name, await harness.add_machine(name)))


def _put(harness: Harness, cluster: Cluster, *, kind: str = "LoadBalancer") -> None:
    """Apply the Service ``web`` like a user; the fields that the controller wrote stay."""
    view = harness.service()
    ports = [
        {"port": port.port, "nodePort": port.node_port, "protocol": port.protocol} for port in view.ports
    ]
    metadata: dict[str, Any] = {"name": view.name, "uid": view.uid, "annotations": dict(view.annotations)}
    item: dict[str, Any] = {"metadata": metadata, "spec": {"type": kind, "ports": ports}}
    for old in cluster.transport.all(SERVICES):
        item = {**old, **item, "metadata": {**old["metadata"], **metadata}}
    cluster.transport.put(SERVICES, item)


@asynccontextmanager
async def _served(harness: Harness) -> AsyncGenerator[Cluster, None]:
    """A cluster with the Node ``a``. Its Service ``web`` has an address from the controller."""
    async with open_cluster() as cluster:
        await _add_node(harness, cluster, "a")
        _put(harness, cluster)
        _start(harness, cluster)
        await cluster.until(lambda: _ingress(cluster))
        yield cluster


def _read(cluster: Cluster) -> dict[str, Any]:
    return cluster.transport.read(f"{SERVICES}/web")


def _ingress(cluster: Cluster) -> list[dict[str, Any]]:
    return _read(cluster).get("status", {}).get("loadBalancer", {}).get("ingress") or []


def _is_gone(cluster: Cluster) -> bool:
    try:
        _read(cluster)
    except NotFound:
        return True
    return False


@pytest.mark.asyncio
class ServiceControllerConformance:
    """Inherit it in a class ``Test…``."""

    async def test_a_service_gets_an_address_and_a_finalizer(self, harness: Harness) -> None:
        balancers = harness.load_balancers
        async with _served(harness) as cluster:
            assert _read(cluster)["metadata"]["finalizers"] == [CLEANUP_FINALIZER]
            found = await balancers.find(harness.service())
            assert found is not None
            reported = {entry.get("ip") or entry.get("hostname") for entry in _ingress(cluster)}
            assert reported == {entry.ip or entry.hostname for entry in found.ingress}

    async def test_its_load_balancer_goes_with_it(self, harness: Harness) -> None:
        balancers = harness.load_balancers
        async with _served(harness) as cluster:
            cluster.transport.remove(f"{SERVICES}/web")
            await cluster.until(lambda: _is_gone(cluster))
            assert await balancers.find(harness.service()) is None

    async def test_a_service_of_another_type_loses_its_load_balancer(self, harness: Harness) -> None:
        balancers = harness.load_balancers
        async with _served(harness) as cluster:
            _put(harness, cluster, kind="ClusterIP")
            await cluster.until(lambda: not _read(cluster)["metadata"].get("finalizers"))
            assert _ingress(cluster) == []
            assert await balancers.find(harness.service()) is None

    async def test_new_nodes_are_put_behind_it(self, harness: Harness) -> None:
        balancers = harness.load_balancers
        async with _served(harness) as cluster:
            await _add_node(harness, cluster, "b")
            for _ in range(_LOOKS):
                await cluster.settle()
                nodes = [view_of(node) for node in cluster.nodes.items()]
                if len(nodes) == 2 and not await balancers.plan(harness.service(), nodes):
                    return
            pytest.fail("the new node is not a target of the load balancer")

    async def test_an_unavailable_cloud_keeps_the_service(self, harness: Harness) -> None:
        """A Service that is deleted too early leaves a load balancer that costs money."""
        balancers = harness.load_balancers
        async with _served(harness) as cluster:
            await harness.make_unavailable()
            cluster.transport.remove(f"{SERVICES}/web")
            for _ in range(10):
                await cluster.settle()
            assert _read(cluster)["metadata"]["finalizers"] == [CLEANUP_FINALIZER]
            await harness.make_available()
            await cluster.until(lambda: _is_gone(cluster))
            assert await balancers.find(harness.service()) is None
