"""Two real control planes on loopback with hollow nodes, and one emulated cloud for both."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hetzner_emulator import standalone, tokens
from hetzner_emulator.address import Address
from hetzner_emulator.config import CloudConfig
from k3s_standin.api import ApiClient, ApiError
from sandbox.api import Api
from sandbox.comparison.table import Seen
from sandbox.errors import SandboxError
from sandbox.hollow import ccm
from sandbox.kubernetes.controlplane import ControlPlane
from sandbox.kubernetes.hollow_nodes import HollowNode, HollowNodes
from sandbox.kubernetes.toolchain import Toolchain

WITHOUT, WITH = "without", "with"
WORKERS = 2
SECONDS = 240.0
"""Timeout for each step, in seconds."""

STOP_SECONDS = 20.0
_POLL_SECONDS = 0.2
_HEARTBEAT = 1.0
_FLAGS = {"kube-controller-manager": {"node-monitor-grace-period": "8s", "node-monitor-period": "1s"}}
"""Shorter times than Kubernetes' defaults, to make the comparison faster. With the defaults, a Node becomes
NotReady only after 50 seconds."""

_PROJECT, _TYPE, _IMAGE, _LOCATION, _ZONE = "comparison", "cpx22", "ubuntu-24.04", "fsn1", "eu-central"
_POD, _SERVICE = "/api/v1/namespaces/default/pods/hello", "/api/v1/namespaces/default/services/hello"
_OBJECTS: Mapping[str, Mapping[str, Any]] = {
    _POD: {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hello", "labels": {"app": "hello"}},
        "spec": {"containers": [{"name": "hello", "image": "docker.io/traefik/whoami:v1.11.0"}]},
    },
    _SERVICE: {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hello", "annotations": {"load-balancer.hetzner.cloud/location": _LOCATION}},
        "spec": {
            "type": "LoadBalancer",
            "selector": {"app": "hello"},
            "ports": [{"port": 80, "targetPort": 80}],
        },
    },
}
"""The same for both clusters."""

Say = Callable[[str], None]
T = TypeVar("T")


@dataclass
class Cluster:
    """One of the two."""

    name: str  # ``with`` or ``without``
    api: ApiClient  # of its API server
    kubeconfig: Path  # an administrator's
    nodes: HollowNodes  # those that live
    network: int  # its id in the cloud
    servers: dict[str, int]  # their ids, by name

    async def get(self, path: str) -> Any:
        """An object, or None."""
        return await asyncio.to_thread(self.api.get, path)

    @property
    def lost(self) -> str:
        """The worker whose server will be deleted."""
        return f"{self.name}-{WORKERS}"


async def _call(cloud: Api, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Send a request and return the answer's JSON."""
    return await asyncio.to_thread(cloud.call, method, path, body)


async def compare(built: Toolchain, root: Path, folder: Path, say: Say) -> tuple[Seen, Seen]:
    """Run the experiment; returns what was seen without a CCM and with it. Leaves nothing."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(_cloud())
        cloud = Api(address)
        say("starting two control planes")
        clusters = await _together(
            _start(stack, built, folder / name, cloud, name) for name in (WITHOUT, WITH)
        )
        without, with_ccm = clusters
        say("creating the same Pod and Service in both clusters")
        await _together(_apply(one) for one in clusters)
        await stack.enter_async_context(_ccm(root, folder, address, with_ccm.kubeconfig))
        say("waiting for the CCM")
        await _together([_until_refused(without), _until_done(cloud, with_ccm)])
        seen = [await _look(cloud, one) for one in clusters]
        say("deleting a server of each cluster")
        after = await _together(_lose(cloud, one) for one in clusters)
        return seen[0](after[0]), seen[1](after[1])


async def _together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do some things side by side; where one fails the others end before anything else does."""
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(each) for each in work]
    return [task.result() for task in started]


@asynccontextmanager
async def _cloud() -> AsyncIterator[Address]:
    token, stopped = tokens.new(), asyncio.Event()
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    config = CloudConfig(tokens={token: _PROJECT}, rate_limit=0)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(standalone.serve(config, 0, stopped, port.set_result))
        try:
            yield Address(await port, token)
        finally:
            stopped.set()


async def _start(stack: AsyncExitStack, built: Toolchain, folder: Path, cloud: Api, name: str) -> Cluster:
    """A control plane, servers for its nodes in a separate network, and the nodes."""
    plane = await stack.enter_async_context(ControlPlane(built, folder, extra=_FLAGS, scheduler=True))
    nodes = await stack.enter_async_context(HollowNodes(plane.url, folder / "tls", heartbeat=_HEARTBEAT))
    subnet = {"type": "cloud", "ip_range": "10.0.0.0/24", "network_zone": _ZONE}
    body = {"name": name, "ip_range": "10.0.0.0/8", "subnets": [subnet]}
    network = (await _call(cloud, "POST", "/networks", body))["network"]["id"]
    cluster = Cluster(name, plane.api(), plane.kubeconfig, nodes, network, {})
    for number in range(1, WORKERS + 1):
        wanted = {"name": f"{name}-{number}", "server_type": _TYPE, "image": _IMAGE, "location": _LOCATION}
        made = (await _call(cloud, "POST", "/servers", {**wanted, "networks": [network]}))["server"]
        made = (await _call(cloud, "GET", f"/servers/{made['id']}"))["server"]
        cluster.servers[made["name"]] = made["id"]
        await nodes.power_on(HollowNode(made["name"], node_ip=made["private_net"][0]["ip"]))
    return cluster


async def _apply(cluster: Cluster) -> None:
    async def applied() -> bool:
        try:
            for path, body in _OBJECTS.items():
                await asyncio.to_thread(cluster.api.apply, path, body)
        except ApiError as error:
            if error.status == 403:  # a new cluster has no ServiceAccount yet
                return False
            raise
        return True

    await _until("the Pod and the Service exist", applied)


@asynccontextmanager
async def _ccm(root: Path, folder: Path, address: Address, kubeconfig: Path) -> AsyncIterator[None]:
    """The CCM of the tree as a process."""
    (folder / "token").write_text(address.token)
    (folder / "token").chmod(0o600)
    own = {"HCLOUD_TOKEN_FILE": str(folder / "token"), "HCLOUD_NETWORK": WITH, "CCM_CLUSTER_ID": WITH}
    with (folder / "ccm.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "KILL", *ccm.command(kubeconfig)),
            cwd=root,
            env={**ccm.kept(os.environ), **ccm.outside(address.endpoint), **own},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()


async def _until_refused(cluster: Cluster) -> None:
    """Wait until the scheduler has said why it can't place the Pod."""

    async def refused() -> bool:
        conditions = (await cluster.get(_POD))["status"].get("conditions", [])
        return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)

    await _until("the scheduler has tried to place the Pod", refused)


async def _until_done(cloud: Api, cluster: Cluster) -> None:
    async def done() -> bool:
        node = await cluster.get(f"/api/v1/nodes/{cluster.name}-1")
        pod, service = await cluster.get(_POD), await cluster.get(_SERVICE)
        initialized = bool(node["spec"].get("providerID"))
        scheduled = bool(pod["spec"].get("nodeName"))
        addressed = bool(service["status"].get("loadBalancer", {}).get("ingress"))
        return initialized and scheduled and addressed and len(await _routes(cloud, cluster)) == WORKERS

    await _until("the CCM has finished", done)


async def _routes(cloud: Api, cluster: Cluster) -> list[tuple[str, str]]:
    network = (await _call(cloud, "GET", f"/networks/{cluster.network}"))["network"]
    return sorted((route["destination"], route["gateway"]) for route in network["routes"])


async def _look(cloud: Api, cluster: Cluster) -> Callable[[str], Seen]:
    """What there is now; what comes afterwards is still to be said."""
    node = await cluster.get(f"/api/v1/nodes/{cluster.name}-1")
    pod, service = await cluster.get(_POD), await cluster.get(_SERVICE)
    listed = (await _call(cloud, "GET", "/load_balancers"))["load_balancers"]
    addresses = [
        one["public_net"]["ipv4"]["ip"]
        for one in listed
        if any(net["network"] == cluster.network for net in one["private_net"])
    ]
    routes = await _routes(cloud, cluster)
    return lambda after: Seen(node, pod, service, addresses, routes, after)


async def _lose(cloud: Api, cluster: Cluster) -> str:
    """Delete a server, and say what becomes of its Node."""
    started, path = time.monotonic(), f"/api/v1/nodes/{cluster.lost}"
    await _call(cloud, "DELETE", f"/servers/{cluster.servers[cluster.lost]}")
    await cluster.nodes.power_off(cluster.lost)
    with_ccm = cluster.name == WITH

    async def over() -> bool:
        node = await cluster.get(path)
        if node is None or with_ccm:
            return node is None
        conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
        return conditions.get("Ready") != "True"

    await _until(f"node {cluster.lost} is NotReady or deleted", over)
    if await cluster.get(path) is None:
        return f"the Node is deleted after {time.monotonic() - started:.0f} s"
    return "the Node stays NotReady until you delete it"


async def _until(what: str, true: Callable[[], Any]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + SECONDS
    while not await true():
        if time.monotonic() > end:
            raise SandboxError(f"timeout after {SECONDS:g} s while waiting for this condition: {what}")
        await asyncio.sleep(_POLL_SECONDS)
