"""A cluster in memory, in which the controllers use the tested cloud."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from ccm.cloud import INTERNAL_IP
from ccm.controllers.names import UNINITIALIZED_TAINT
from ccm.kube.backoff import RetryLimiter
from ccm.kube.events import EventRecorder
from ccm.kube.informer import Informer
from ccm.kube.objects import Node, Service
from ccm.kube.queue import WorkQueue
from ccm.testing.memory_transport import MemoryTransport

NODES = "/api/v1/nodes"
SERVICES = "/api/v1/namespaces/conformance/services"
SECONDS = 20.0  # maximum time for one change in a real cloud
PERIOD = 0.02
Object = dict[str, Any]


class Cluster:
    """An API server in memory, with informers for Nodes and Services."""

    def __init__(self) -> None:
        self.transport = MemoryTransport()
        self.nodes = Informer(self.transport, NODES, Node)
        self.services = Informer(self.transport, "/api/v1/services", Service)
        self.recorder = EventRecorder(self.transport, "conformance")
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Let a controller work until the test ends."""
        self._tasks.append(asyncio.create_task(work))

    async def stop(self) -> None:
        """End all controllers; fails if one has ended before."""
        ended = [task for task in self._tasks if task.done()]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert not ended, "a controller ended by itself"

    async def until(self, check: Callable[[], object]) -> None:
        """Wait until the check is true."""
        async with asyncio.timeout(SECONDS):
            while not check():  # noqa: ASYNC110 - a cloud sets no event
                await asyncio.sleep(PERIOD)

    async def settle(self) -> None:
        """Wait a moment, so that the informers receive the last changes."""
        await asyncio.sleep(PERIOD)

    def node(self, name: str) -> Object:
        """A Node as it is stored."""
        return self.transport.read(f"{NODES}/{name}")

    def names(self) -> list[str]:
        """The names of all Nodes."""
        return [item["metadata"]["name"] for item in self.transport.all(NODES)]

    def taints(self, name: str) -> list[str]:
        """The keys of a Node's taints."""
        taints: list[Object] = self.node(name)["spec"].get("taints") or []
        return [taint["key"] for taint in taints]

    def conditions(self, name: str) -> dict[str, str]:
        """A Node's conditions."""
        found = self.node(name).get("status", {}).get("conditions", [])
        return {condition["type"]: condition["status"] for condition in found}


@asynccontextmanager
async def open_cluster() -> AsyncGenerator[Cluster, None]:
    """An empty cluster with synced informers."""
    cluster = Cluster()
    cluster.run(cluster.nodes.run())
    cluster.run(cluster.services.run())
    await cluster.nodes.synced.wait()
    await cluster.services.synced.wait()
    try:
        yield cluster
    finally:
        await cluster.stop()


def impatient_queue(name: str) -> WorkQueue:
    """A queue with short delays before retries."""
    return WorkQueue(name, limiter=RetryLimiter(PERIOD, 0.5))


def node_object(
    name: str, provider_id: str = "", *, ready: bool = True, pod_cidr: str = "", internal_ip: str = ""
) -> Object:
    """A Node. Without a provider ID, it has the taint *uninitialized*, as from a kubelet."""
    taint = {"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}
    spec: Object = {"providerID": provider_id} if provider_id else {"taints": [taint]}
    if pod_cidr:
        spec |= {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]}
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    status: Object = {"conditions": conditions}
    if internal_ip:
        status["addresses"] = [{"type": INTERNAL_IP, "address": internal_ip}]
    return {"metadata": {"name": name}, "spec": spec, "status": status}
