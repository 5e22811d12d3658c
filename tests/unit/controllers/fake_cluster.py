"""A cluster in memory with a scriptable cloud; time is virtual."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ccm.cloud import EXTERNAL_IP, HOSTNAME, INTERNAL_IP, Address, Instance
from ccm.controllers.names import UNINITIALIZED_TAINT
from ccm.testing.conformance import cluster as conformance
from ccm.testing.conformance.cluster import NODES
from ccm.testing.fake_cloud import FakeCloud, FakeInstances
from tests.unit.event_recorder import Events


class Cluster(conformance.Cluster):
    def __init__(self) -> None:
        super().__init__()
        self.cloud, self.events = FakeCloud.complete(), Events()

    @property
    def instances(self) -> FakeInstances:
        assert self.cloud.instances is not None
        return self.cloud.instances

    async def add_node(self, name: str, **parts: Any) -> dict[str, Any]:
        item = self.transport.put(NODES, node(name, **parts))
        await self.settle()
        return item

    async def settle(self, seconds: float = 0.01) -> None:
        await asyncio.sleep(seconds)

    def addresses(self, name: str) -> list[tuple[str, str]]:
        return [(one["type"], one["address"]) for one in self.node(name)["status"].get("addresses", [])]

    def writes(self, name: str = "") -> list[str]:
        verbs = ("patch", "update", "create", "delete")
        return [
            request.verb
            for request in self.transport.requests
            if request.verb in verbs and name in request.path
        ]


@asynccontextmanager
async def running(controller: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(controller.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def run_for(controller: Any, seconds: float) -> None:
    async with running(controller):
        await asyncio.sleep(seconds)


def node(
    name: str,
    *,
    provider_id: str = "",
    ready: str | None = "True",
    tainted: bool = False,
    taints: tuple[dict[str, str], ...] = (),
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    addresses: tuple[tuple[str, str], ...] = (),
    **more: Any,
) -> dict[str, Any]:
    """A Node as a kubelet with an external cloud provider registers it."""
    uninitialized = {"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}
    all_taints = [*([uninitialized] if tainted else []), *taints]
    spec: dict[str, Any] = {**({"taints": all_taints} if all_taints else {}), **more.pop("spec", {})}
    if provider_id:
        spec["providerID"] = provider_id
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    return {
        "metadata": {**metadata, **more.pop("metadata", {})},
        "spec": spec,
        "status": {
            "addresses": [{"type": kind, "address": address} for kind, address in addresses],
            "conditions": [{"type": "Ready", "status": ready}] if ready else [],
        },
    }


def instance(name: str, number: int = 1, **more: Any) -> Instance:
    """A machine that is complete."""
    facts: dict[str, Any] = {
        "type": "cpx22",
        "zone": "fsn1",
        "region": "eu-central",
        "addresses": (
            Address(HOSTNAME, name),
            Address(EXTERNAL_IP, f"203.0.113.{number}"),
            Address(INTERNAL_IP, f"10.0.0.{number}"),
        ),
        "labels": {"instance.example/provided-by": "cloud"},
    }
    return Instance(f"fake://{number}", name, **{**facts, **more})
