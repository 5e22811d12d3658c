"""How the controllers use a cloud's machines: they initialize Nodes, and delete those without a machine."""

import asyncio

import pytest

from ccm.cloud import NodeView
from ccm.controllers.names import SHUTDOWN_TAINT, UNINITIALIZED_TAINT
from ccm.controllers.node import NodeController
from ccm.controllers.node_lifecycle import NodeLifecycleController, NodeLifecycleOptions
from ccm.errors import CcmError
from ccm.testing.conformance.cluster import NODES, Cluster, node_object, open_cluster
from ccm.testing.conformance.harness import Harness

_PERIOD = 0.01


async def _monitor(harness: Harness, cluster: Cluster) -> None:
    """Check Nodes more often than the confirmation of a deletion requires."""
    await cluster.settle()
    options = NodeLifecycleOptions(monitor_period=_PERIOD, longest_interval=_PERIOD)
    controller = NodeLifecycleController(
        harness.instances, cluster.transport, cluster.nodes, cluster.recorder, options
    )
    for _ in range(4):
        await controller.monitor()
        await asyncio.sleep(2 * _PERIOD)


async def _initialize(harness: Harness, cluster: Cluster, name: str) -> None:
    """Reconcile a new Node once. After a failure, the Node must still have its taint."""
    await cluster.settle()
    controller = NodeController(harness.instances, cluster.transport, cluster.nodes, cluster.recorder)
    try:
        await controller.reconcile(name)
    except CcmError:
        assert UNINITIALIZED_TAINT in cluster.taints(name)


@pytest.mark.asyncio
class NodeControllersConformance:
    """Inherit it in a class ``Test…``."""

    async def test_a_new_node_is_initialized(self, harness: Harness) -> None:
        instances = harness.instances
        provider_id = await harness.add_machine("a")
        async with open_cluster() as cluster:
            cluster.transport.put(NODES, node_object("a"))
            await _initialize(harness, cluster, "a")
            node = cluster.node("a")
        assert node["spec"]["providerID"] == provider_id
        assert not node["spec"].get("taints")
        known = (await instances.get(NodeView("a", provider_id), accepted_age=0)).addresses
        reported = {(address["type"], address["address"]) for address in node["status"].get("addresses", [])}
        assert reported >= {(address.type, address.address) for address in known}

    async def test_a_node_waits_for_its_machine(self, harness: Harness) -> None:
        harness.instances  # noqa: B018 - skips the test if there are none
        async with open_cluster() as cluster:
            cluster.transport.put(NODES, node_object("a", ready=False))
            await _initialize(harness, cluster, "a")
            await _monitor(harness, cluster)
            assert cluster.taints("a") == [UNINITIALIZED_TAINT]
            provider_id = await harness.add_machine("a")
            await _initialize(harness, cluster, "a")
            assert cluster.node("a")["spec"]["providerID"] == provider_id
            assert cluster.taints("a") == []

    async def test_an_unavailable_cloud_initializes_no_node(self, harness: Harness) -> None:
        harness.instances  # noqa: B018
        await harness.add_machine("a")
        await harness.make_unavailable()
        async with open_cluster() as cluster:
            cluster.transport.put(NODES, node_object("a"))
            await _initialize(harness, cluster, "a")
            assert cluster.taints("a") == [UNINITIALIZED_TAINT]
            await harness.make_available()
            await _initialize(harness, cluster, "a")
            assert cluster.taints("a") == []

    async def test_the_node_of_a_removed_machine_goes_and_others_stay(self, harness: Harness) -> None:
        harness.instances  # noqa: B018
        async with open_cluster() as cluster:
            for name in ("a", "b"):
                cluster.transport.put(NODES, node_object(name, await harness.add_machine(name), ready=False))
            await harness.remove_machine(cluster.node("a")["spec"]["providerID"])
            await _monitor(harness, cluster)
            assert cluster.names() == ["b"]

    async def test_not_all_nodes_go_at_once(self, harness: Harness) -> None:
        """If all machines seem to be gone, the cloud's data is probably wrong."""
        harness.instances  # noqa: B018
        async with open_cluster() as cluster:
            for name in ("a", "b", "c"):
                provider_id = await harness.add_machine(name)
                cluster.transport.put(NODES, node_object(name, provider_id, ready=False))
                await harness.remove_machine(provider_id)
            await _monitor(harness, cluster)
            assert cluster.names() == ["a", "b", "c"]

    async def test_the_nodes_of_others_are_left_alone(self, harness: Harness) -> None:
        harness.instances  # noqa: B018
        async with open_cluster() as cluster:
            cluster.transport.put(NODES, node_object("x", harness.foreign_provider_id, ready=False))
            before = cluster.node("x")
            await _initialize(harness, cluster, "x")
            await _monitor(harness, cluster)
            assert cluster.node("x") == before

    async def test_the_node_of_a_machine_that_is_off_is_tainted(self, harness: Harness) -> None:
        harness.instances  # noqa: B018
        provider_id = await harness.add_machine("a")
        await harness.power_off(provider_id)
        async with open_cluster() as cluster:
            cluster.transport.put(NODES, node_object("a", provider_id, ready=False))
            await _monitor(harness, cluster)
            assert cluster.taints("a") == [SHUTDOWN_TAINT]
            await harness.power_on(provider_id)
            back = cluster.node("a") | {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            cluster.transport.put(NODES, back)
            await _monitor(harness, cluster)
            assert cluster.taints("a") == []

    async def test_an_unavailable_cloud_deletes_no_node(self, harness: Harness) -> None:
        harness.instances  # noqa: B018
        async with open_cluster() as cluster:
            for name in ("a", "b"):
                cluster.transport.put(NODES, node_object(name, await harness.add_machine(name), ready=False))
            await harness.make_unavailable()
            await _monitor(harness, cluster)
            assert cluster.names() == ["a", "b"]
