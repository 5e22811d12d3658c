"""The stage of a comparison: an emulated cloud, a real API server, hollow nodes; a CCM comes later."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lab.cloud import Cloud, Server, running_cloud
from bench.lab.report import BenchError, say
from ccm.kube.errors import NotFound
from ccm.kube.informer import Informer
from ccm.kube.objects import Node, Service
from ccm.kube.transport import KubernetesTransport
from k3s_standin.pki import Pki
from sandbox.errors import SandboxError
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import CONTROL_PLANE
from sandbox.kubernetes.controlplane import ControlPlane
from sandbox.kubernetes.hollow_nodes import HollowNode, HollowNodes
from sandbox.site import cache_directory

CLUSTER_CIDR = "10.128.0.0/9"
NODES, SERVICES = "/api/v1/nodes", "/api/v1/namespaces/default/services"
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
# As a kubelet's node status; whether a node lives is not what these comparisons are about.
_HEARTBEAT = 300.0
_FLAGS = {"kube-controller-manager": {"node-monitor-grace-period": "24h"}}
_PARALLEL = 20
_POLL = 0.1


@dataclass
class Stage:
    """What runs."""

    directory: Path  # for logs; removed at the end
    cloud: Cloud  # the emulated cloud
    kubeconfig: Path  # an administrator's
    url: str  # of the API server
    authority: bytes  # the certificate that vouches for it, PEM
    api: KubernetesTransport  # a connection to the API server, with an administrator's rights
    hollow: HollowNodes  # the nodes that live
    nodes: Informer[Node]  # all Nodes, current
    services: Informer[Service]  # all Services, current

    async def add_servers(self, names: Sequence[str], *, private: bool = True) -> list[Server]:
        """Servers without Nodes."""
        return await asyncio.to_thread(self.cloud.add_servers, list(names), private=private)

    async def register(self, servers: Sequence[Server]) -> None:
        """A kubelet registers on each server; its Node is not initialized."""
        await each(
            servers,
            lambda one: self.hollow.power_on(HollowNode(one.name, node_ip=one.private_ip or one.public_ip)),
        )

    async def add_nodes(self, names: Sequence[str]) -> None:
        """Servers in the network, and their Nodes."""
        await self.register(await self.add_servers(names))

    async def put_service(self, name: str, ports: int, annotations: dict[str, str]) -> None:
        """A Service that wants a load balancer."""
        listed = [{"name": f"p{number}", "port": 80 + number, "protocol": "TCP"} for number in range(ports)]
        body = {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"type": "LoadBalancer", "ports": listed},
        }
        await self.api.create(SERVICES, body, Service)

    async def until(self, what: str, true: Callable[[], bool], *, seconds: float = 120.0) -> None:
        """Wait for something."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise BenchError(f"{what}: this was not so after {seconds:.0f} s; see the CCM's log above")
            await asyncio.sleep(_POLL)

    def initialized(self) -> int:
        """How many Nodes have a provider ID and not the taint that waits for a cloud."""
        return sum(
            bool(node.spec.provider_id) and all(taint.key != UNINITIALIZED for taint in node.spec.taints)
            for node in self.nodes.items()
        )

    async def settled(self, *, calm: float = 3.0, seconds: float = 120.0) -> dict[str, int]:
        """Wait until the cloud gets no requests for so long; the counts until then."""
        end, last, since = time.monotonic() + seconds, {"": -1}, time.monotonic()
        while time.monotonic() - since < calm and time.monotonic() < end:
            counts = await asyncio.to_thread(self.cloud.counts)
            if counts != last:
                last, since = counts, time.monotonic()
            await asyncio.sleep(2 * _POLL)
        return last

    def versions(self) -> set[str]:
        """What changes when any Node is changed."""
        return {node.metadata.resource_version for node in self.nodes.items()}

    async def untouched(self, *, calm: float = 4.0) -> None:
        """Wait until Kubernetes' own controllers have done what they do with new nodes."""
        before: set[str] = set()
        while (now := self.versions()) != before:
            before = now
            await asyncio.sleep(calm)

    async def clear(self) -> None:
        """Leave nothing in the cluster and the cloud, for the next one on this stage."""
        for service in self.services.items():
            if service.spec.type == "LoadBalancer":
                path = f"{SERVICES}/{service.metadata.name}"
                await self.api.patch(path, {"metadata": {"finalizers": None}}, Service)
                await _gone(self.api, path)
        for name in self.hollow.names:
            await self.hollow.power_off(name)
        await each(self.nodes.items(), lambda node: _gone(self.api, f"{NODES}/{node.metadata.name}"))
        await asyncio.to_thread(self.cloud.admin, "POST", "/reset")


async def each(items: Sequence[Any], work: Callable[[Any], Any]) -> None:
    """Do something with each, some at a time."""
    turn = asyncio.Semaphore(_PARALLEL)

    async def one(item: Any) -> None:
        async with turn:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(one(item))


async def _gone(api: KubernetesTransport, path: str) -> None:
    try:
        await api.delete(path)
    except NotFound:
        return


def _toolchain() -> toolchain.Toolchain:
    """Only what a control plane needs; built if need be (some minutes, once)."""
    cache = cache_directory(os.environ)
    try:
        return toolchain.ensure(cache, say, CONTROL_PLANE)
    except SandboxError as error:
        raise BenchError(str(error)) from error


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Everything, for the time of a block."""
    built = await asyncio.to_thread(_toolchain)
    say("starting the emulated cloud and a real API server")
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ccm-bench-")))
        cloud = stack.enter_context(running_cloud(directory))
        cluster = ControlPlane(built, directory / "cluster", cluster_cidr=CLUSTER_CIDR, extra=_FLAGS)
        await stack.enter_async_context(cluster)
        certificates = directory / "cluster" / "tls"
        hollow = await stack.enter_async_context(HollowNodes(cluster.url, certificates, heartbeat=_HEARTBEAT))
        api = await KubernetesTransport.connect(environment={}, kubeconfig=str(cluster.kubeconfig))
        stack.push_async_callback(api.close)
        nodes, services = Informer(api, NODES, Node), Informer(api, "/api/v1/services", Service)
        for informer in (nodes, services):
            stack.push_async_callback(_cancel, asyncio.create_task(informer.run()))
            await informer.synced.wait()
        authority = Pki(certificates).server_authority.certificate.read_bytes()
        yield Stage(
            directory, cloud, cluster.kubeconfig, cluster.url, authority, api, hollow, nodes, services
        )


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
