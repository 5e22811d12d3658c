"""Hollow nodes: Node objects that live as if a kubelet stood behind each, for a cluster without machines.

A hollow node registers as a kubelet with ``--cloud-provider=external`` does (the uninitialized taint, its
node IP as an annotation), keeps Ready and its Lease fresh, and gets its podCIDR from the controller manager.
It acts as the user ``system:node:NAME`` by impersonation, so it may do what a kubelet may do.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import aiohttp

from k3s_standin import pki
from k3s_standin.pki import Pki
from k3s_standin.versions import KUBERNETES_VERSION

HEARTBEAT_SECONDS = 10.0
LEASE_SECONDS = 40
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_MERGE = {"Content-Type": "application/merge-patch+json"}
_STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


@dataclass(frozen=True)
class HollowNode:
    """What a node is registered with."""

    name: str  # of the node and, as on real servers, of the cloud's server
    node_ip: str = ""  # what ``--node-ip`` would say, two with a comma between them; empty for none
    cores: int = 2  # processors
    memory_mib: int = 4096
    architecture: str = "amd64"  # of its processor, as Go and Kubernetes call it


def node_object(node: HollowNode, now: datetime, version: str = KUBERNETES_VERSION) -> dict[str, Any]:
    """The Node that a kubelet would create."""
    annotations = {
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }
    if node.node_ip:
        annotations["alpha.kubernetes.io/provided-node-ip"] = node.node_ip
    labels = {
        "beta.kubernetes.io/arch": node.architecture,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": node.architecture,
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
    }
    taint = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels, "annotations": annotations},
        "spec": {"taints": [taint]},
        "status": _status(node, now, version),
    }


def _status(node: HollowNode, now: datetime, version: str) -> dict[str, Any]:
    resources = {
        "cpu": str(node.cores),
        "memory": f"{node.memory_mib}Mi",
        "pods": "110",
        "ephemeral-storage": "40Gi",
    }
    addresses = [{"type": "Hostname", "address": node.name}]
    if node.node_ip:
        addresses = [{"type": "InternalIP", "address": ip} for ip in node.node_ip.split(",")] + addresses
    return {
        "addresses": addresses,
        "allocatable": resources,
        "capacity": resources,
        "conditions": conditions(now, now),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": node.architecture,
            "bootID": "hollow",
            "containerRuntimeVersion": "hollow://1",
            "kernelVersion": "hollow",
            "kubeProxyVersion": "",
            "kubeletVersion": version,
            "machineID": "hollow",
            "operatingSystem": "linux",
            "osImage": "hollow node",
            "systemUUID": "hollow",
        },
    }


def conditions(now: datetime, since: datetime) -> list[dict[str, str]]:
    """The conditions of a node in good health."""
    healthy = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    times = {"lastHeartbeatTime": _seconds(now), "lastTransitionTime": _seconds(since)}
    return [{"type": t, "status": s, "reason": r, "message": m, **times} for t, s, r, m in healthy]


def lease_object(name: str, now: datetime) -> dict[str, Any]:
    """The Lease by which the node lifecycle sees that the node lives."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        },
    }


def _seconds(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


def _now() -> datetime:
    return datetime.now(UTC)


class HollowNodes:
    """Keeps any number of hollow nodes alive in this process.

    Use as an async context manager; on exit heartbeats end and the Node objects stay, as after a power-off.
    """

    def __init__(self, url: str, certificates: Path, *, heartbeat: float = HEARTBEAT_SECONDS) -> None:
        """Nothing happens before entry."""
        self._url = url
        self._heartbeat = heartbeat
        self._tasks: dict[str, asyncio.Task[None]] = {}
        authority, certificate, key = Pki(certificates).access(pki.ADMIN)
        self._tls = ssl.create_default_context(cafile=authority)
        self._tls.load_cert_chain(certificate, key)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self._url, connector=aiohttp.TCPConnector(ssl=self._tls, limit=20), timeout=_TIMEOUT
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in list(self._tasks):
            await self.power_off(name)
        if self._session:
            await self._session.close()

    @property
    def names(self) -> list[str]:
        """The nodes that have a heartbeat."""
        return sorted(self._tasks)

    async def power_on(self, node: HollowNode) -> None:
        """Register a node, or continue its heartbeat; returns when it is Ready. Raises ClientError."""
        if node.name in self._tasks:
            return
        await self._register(node)
        self._tasks[node.name] = asyncio.create_task(self._live(node), name=f"hollow node {node.name}")

    async def power_off(self, name: str) -> None:
        """End a node's heartbeat; its Node object stays and becomes NotReady in time, as on real machines."""
        task = self._tasks.pop(name, None)
        if task:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _register(self, node: HollowNode) -> None:
        wanted = node_object(node, _now(), await self._server_version())
        created = await self._send("POST", node.name, "/api/v1/nodes", wanted, accepted={409})
        if not created:
            await self._beat(node, _now())
        await self._renew(node.name)

    async def _server_version(self) -> str:
        """The version of the API server, which hollow nodes report as the version of their kubelets."""
        assert self._session is not None, "used outside of its context"
        async with self._session.get("/version", raise_for_status=True) as answer:
            return (await answer.json())["gitVersion"]

    async def _live(self, node: HollowNode) -> None:
        since = _now()
        while True:
            await asyncio.sleep(self._heartbeat)
            try:
                # A kubelet whose Node was deleted registers again only after a restart.
                await self._beat(node, since)
                await self._renew(node.name)
            except (aiohttp.ClientError, TimeoutError):
                # The API server is away for a moment; the next beat tries again, as a kubelet does.
                continue

    async def _beat(self, node: HollowNode, since: datetime) -> None:
        body = {"status": {"conditions": conditions(_now(), since)}}
        path = f"/api/v1/nodes/{node.name}/status"
        await self._send("PATCH", node.name, path, body, headers=_STRATEGIC, accepted={404})

    async def _renew(self, name: str) -> None:
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        lease = lease_object(name, _now())
        spec = {"spec": lease["spec"]}
        if not await self._send("PATCH", name, f"{leases}/{name}", spec, headers=_MERGE, accepted={404}):
            await self._send("POST", name, leases, lease, accepted={409})

    async def _send(
        self,
        method: str,
        name: str,
        path: str,
        body: Any,
        *,
        headers: Mapping[str, str] | None = None,
        accepted: set[int],
    ) -> bool:
        """Send a request as a node; False when it ended with one of the accepted error statuses."""
        assert self._session is not None, "used outside of its context"
        user = {"Impersonate-User": f"system:node:{name}", "Impersonate-Group": "system:nodes"}
        async with self._session.request(
            method, path, json=body, headers={**user, **(headers or {})}
        ) as answer:
            if answer.status in accepted:
                return False
            if answer.status >= 400:
                text = await answer.text()
                raise aiohttp.ClientResponseError(
                    answer.request_info, answer.history, status=answer.status, message=text[:300]
                )
            return True
