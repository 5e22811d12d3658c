"""A cluster in memory with Services, and a scriptable cloud; time is virtual."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.nodes import trim_node
from ccm.controllers.service.controller import ServiceController, ServiceOptions
from ccm.controllers.service.transform import service_transform
from ccm.kube.informer import Informer
from ccm.kube.objects import Node, Service
from ccm.testing.fake_cloud import FakeCloud, FakeLoadBalancers
from ccm.testing.memory_transport import MemoryTransport
from tests.unit.event_recorder import Events

NODES = "/api/v1/nodes"
SERVICES = "/api/v1/services"
SHOP = "/api/v1/namespaces/shop/services"


@dataclass
class ServiceCluster:
    transport: MemoryTransport
    services: Informer[Service]
    nodes: Informer[Node]
    cloud: FakeCloud
    events: Events
    controller: ServiceController
    registry: CollectorRegistry

    def metric(self, name: str) -> float | None:
        return self.registry.get_sample_value(name)

    @property
    def balancers(self) -> FakeLoadBalancers:
        assert self.cloud.load_balancers is not None
        return self.cloud.load_balancers

    async def settle(self, seconds: float = 0.1) -> None:
        await asyncio.sleep(seconds)

    async def put(self, name: str, namespace: str = "shop", **parts: Any) -> dict[str, Any]:
        item = self.transport.put(f"/api/v1/namespaces/{namespace}/services", service(name, **parts))
        await self.settle()
        return item

    async def put_node(self, name: str, **parts: Any) -> None:
        self.transport.put(NODES, node(name, **parts))
        await self.settle()

    async def change(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        item = self.read(name)
        change(item)
        self.transport.put(SHOP, item)
        await self.settle()

    def read(self, name: str) -> dict[str, Any]:
        return self.transport.read(f"{SHOP}/{name}")

    def ingress(self, name: str) -> list[dict[str, Any]]:
        return self.read(name).get("status", {}).get("loadBalancer", {}).get("ingress", [])

    def finalizers(self, name: str) -> list[str]:
        return self.read(name)["metadata"].get("finalizers", [])

    def patches(self) -> int:
        return sum(1 for request in self.transport.requests if request.verb == "patch")

    def calls(self, *names: str) -> list[str]:
        return [name for name, _ in self.cloud.script.calls if not names or name in names]

    def targets(self, name: str) -> tuple[str, ...]:
        return self.balancers.targets[self.read(name)["metadata"]["uid"]]


@asynccontextmanager
async def running(
    options: ServiceOptions | None = None, transport: MemoryTransport | None = None
) -> AsyncIterator[ServiceCluster]:
    """A running controller. Pass an older transport to start it again on the same cluster."""
    transport = transport or MemoryTransport()
    cloud, events = FakeCloud.complete(), Events()
    assert cloud.load_balancers is not None
    services = Informer(transport, SERVICES, Service, transform=service_transform(cloud.load_balancers))
    nodes = Informer(transport, NODES, Node, transform=trim_node)
    registry = CollectorRegistry()
    controller = ServiceController(
        cloud.load_balancers,
        transport,
        services,
        nodes,
        events,
        options=options or ServiceOptions(),
        registry=registry,
    )
    tasks = [asyncio.create_task(work) for work in (services.run(), nodes.run(), controller.run())]
    cluster = ServiceCluster(transport, services, nodes, cloud, events, controller, registry)
    await cluster.settle()
    try:
        yield cluster
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [result for result in results if not isinstance(result, asyncio.CancelledError)]
        assert not failures, failures


def service(
    name: str,
    *,
    type: str = "LoadBalancer",  # noqa: A002
    ports: tuple[tuple[int, int, str], ...] = ((80, 30080, "TCP"),),
    finalizer: bool = False,
    annotations: dict[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Service as a person applies it."""
    wire = [{"port": port, "nodePort": node_port, "protocol": kind} for port, node_port, kind in ports]
    return {
        "metadata": {
            "name": name,
            "annotations": annotations or {},
            "finalizers": [CLEANUP_FINALIZER] if finalizer else [],
            **(metadata or {}),
        },
        "spec": {"type": type, "ports": wire, **spec},
    }


def node(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    taints: tuple[str, ...] = (),
    ready: bool = True,
    provider_id: str | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """A Node that was initialized."""
    spec: dict[str, Any] = {"providerID": f"fake://{name}" if provider_id is None else provider_id}
    if taints:
        spec["taints"] = [{"key": key, "effect": "NoSchedule"} for key in taints]
    return {
        "metadata": {"name": name, "labels": labels or {}, **metadata},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }
