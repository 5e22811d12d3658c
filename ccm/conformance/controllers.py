"""What the controllers make of a cloud: Nodes come to life, and go when their machines do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ccm.conformance.harness import Harness
from ccm.controllers.names import SHUTDOWN_TAINT, UNINITIALIZED_TAINT
from ccm.controllers.node import NodeController
from ccm.controllers.node_lifecycle import NodeLifecycleController, NodeLifecycleOptions
from ccm.kube.events import EventRecorder
from ccm.kube.informer import Informer
from ccm.kube.memory import MemoryTransport
from ccm.kube.objects import Node

_NODES = "/api/v1/nodes"


@asynccontextmanager
async def _nodes(transport: MemoryTransport) -> AsyncGenerator[Informer[Node], None]:
    nodes = Informer(transport, _NODES, Node)
    running = asyncio.create_task(nodes.run())
    await nodes.synced.wait()
    try:
        yield nodes
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _node(name: str, provider_id: str = "", *, ready: bool) -> dict[str, Any]:
    taint = {"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}
    spec = {"providerID": provider_id} if provider_id else {"taints": [taint]}
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": conditions}}


async def _monitor(harness: Harness, transport: MemoryTransport) -> None:
    """Look at Nodes as often as a deletion has to be confirmed."""
    async with _nodes(transport) as nodes:
        controller = NodeLifecycleController(
            harness.instances,
            transport,
            nodes,
            EventRecorder(transport, "conformance"),
            NodeLifecycleOptions(monitor_period=0.01),
        )
        for _ in range(3):
            await controller.monitor()
            await asyncio.sleep(0.02)


@pytest.mark.asyncio
class ControllersConformance:
    """Inherit it in a class ``Test…`` that has a fixture ``harness``."""

    async def test_a_new_node_is_initialised(self, harness: Harness) -> None:
        """With provider ID, and without the taint."""
        provider_id = await harness.add_machine("a")
        transport = MemoryTransport()
        transport.put(_NODES, _node("a", ready=True))
        async with _nodes(transport) as nodes:
            recorder = EventRecorder(transport, "conformance")
            await NodeController(harness.instances, transport, nodes, recorder).reconcile("a")
        node = transport.read(f"{_NODES}/a")
        assert node["spec"]["providerID"] == provider_id
        assert not node["spec"].get("taints")

    async def test_the_node_of_a_removed_machine_goes_and_others_stay(self, harness: Harness) -> None:
        """Also while both are not Ready."""
        transport = MemoryTransport()
        for name in ("a", "b"):
            transport.put(_NODES, _node(name, await harness.add_machine(name), ready=False))
        await harness.remove_machine(transport.read(f"{_NODES}/a")["spec"]["providerID"])
        await _monitor(harness, transport)
        assert [item["metadata"]["name"] for item in transport.all(_NODES)] == ["b"]

    async def test_the_node_of_a_machine_that_is_off_is_tainted(self, harness: Harness) -> None:
        """And kept."""
        transport = MemoryTransport()
        provider_id = await harness.add_machine("a")
        transport.put(_NODES, _node("a", provider_id, ready=False))
        await harness.power_off(provider_id)
        await _monitor(harness, transport)
        taints = transport.read(f"{_NODES}/a")["spec"]["taints"]
        assert [taint["key"] for taint in taints] == [SHUTDOWN_TAINT]

    async def test_a_blind_cloud_deletes_nothing(self, harness: Harness) -> None:
        """Whatever it answers."""
        transport = MemoryTransport()
        for name in ("a", "b"):
            transport.put(_NODES, _node(name, await harness.add_machine(name), ready=False))
        await harness.go_blind()
        await _monitor(harness, transport)
        assert len(transport.all(_NODES)) == 2
