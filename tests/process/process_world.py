"""A cluster without machines, a cloud without machines, and CCM processes between them."""

import asyncio
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

import aiohttp
import emulated_cloud
import yaml
from emulated_cloud import TOKEN, EmulatedCloud

from hetzner_emulator.config import CloudConfig
from k3s_standin import pki
from k3s_standin.pki import Pki
from sandbox.kubernetes.controlplane import ControlPlane
from sandbox.kubernetes.hollow_nodes import HollowNode, HollowNodes
from sandbox.kubernetes.toolchain import Toolchain
from tests.ports import free_port

TREE = Path(__file__).parents[2]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager"
ACCOUNT = "system:serviceaccount:kube-system:cloud-controller-manager"
AUDIT = "audit.log"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}],
}
PLACES = {
    "ServiceAccount": "/api/v1/namespaces/kube-system/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
}
QUICK = (
    "--route-reconciliation-period=500ms",
    "--node-monitor-period=500ms",
    "--node-status-update-frequency=2s",
    # Long enough for an API server on a busy machine, so that no replica loses the lease by chance.
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=12s",
    "--leader-elect-retry-period=300ms",
)


@dataclass
class Ccm:
    process: asyncio.subprocess.Process
    port: int  # of health and metrics
    log: Path  # file with what it wrote
    tls: ssl.SSLContext

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8")

    async def get(self, path: str, *, as_admin: bool = False) -> tuple[int, str]:
        context = self.tls if as_admin else False
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"https://127.0.0.1:{self.port}{path}", ssl=context) as answer:
                    return answer.status, await answer.text()
            except aiohttp.ClientConnectionError:
                return 0, "does not listen"

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it; returns the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 60)


@dataclass
class World:
    cluster: ControlPlane
    nodes: HollowNodes
    sky: EmulatedCloud
    network: int
    directory: Path
    kubeconfig: Path
    running: list[Ccm] = field(default_factory=list)
    python: str = sys.executable  # what runs the CCM
    modules: str = str(TREE)  # PYTHONPATH with which it finds the CCM
    program: tuple[str, ...] = ("-m", "ccm")  # the words that make Python run it

    @property
    def token_file(self) -> Path:
        return self.directory / "token"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": self.modules,
            "PYTHONDONTWRITEBYTECODE": "1",
            "HCLOUD_TOKEN_FILE": str(self.token_file),
            "HCLOUD_ENDPOINT": self.sky.endpoint,
            "HCLOUD_NETWORK": str(self.network),
            "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
            "HCLOUD_METRICS_ENABLED": "false",
            "HCLOUD_INSTANCES_COPY_LABELS": "team",
            "HCLOUD_SERVER_CACHE_MAX_AGE": "1s",
        }

    @property
    def flags(self) -> list[str]:
        return [
            "--cloud-provider=hcloud",
            f"--kubeconfig={self.kubeconfig}",
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/16",
        ]

    async def start(self, *flags: str, environment: dict[str, str] | None = None) -> Ccm:
        """Start a process; it may not lead yet."""
        port = free_port()
        log = self.directory / f"ccm-{port}.log"
        arguments = [*self.flags, *QUICK, f"--secure-port={port}", "--bind-address=127.0.0.1", *flags]
        with log.open("wb") as stream:
            process = await asyncio.create_subprocess_exec(
                self.python,
                *(*self.program, *arguments),
                stdout=stream,
                stderr=stream,
                cwd=self.directory,  # not the tree, whose modules would win
                env={**self.environment, **(environment or {})},
            )
        ccm = Ccm(process, port, log, admin_tls(self.cluster.directory / "tls"))
        self.running.append(ccm)
        return ccm

    async def run(self, *arguments: str) -> tuple[int, str]:
        """Run ``python -m ccm`` to its end; returns exit code and output."""
        process = await asyncio.create_subprocess_exec(
            self.python,
            *("-m", "ccm", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.directory,
            env=self.environment,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 600)
        assert process.returncode is not None
        return process.returncode, output.decode()

    async def machine(self, name: str, number: int, *, dual: bool = False, **more: Any) -> dict[str, Any]:
        """A server in the network, and a kubelet on it that registers; ``dual``: by its IPv6 address, too."""
        server = await self.sky.add_server(name, **more)
        ip = f"10.0.0.{number}"
        body = {"network": self.network, "ip": ip}
        await self.sky.call("POST", f"/servers/{server['id']}/actions/attach_to_network", body)
        first = str(IPv6Network(server["public_net"]["ipv6"]["ip"])[1])
        await self.nodes.power_on(HollowNode(name, node_ip=f"{ip},{first}" if dual else ip))
        return server

    async def not_ready(self, name: str) -> None:
        """What the cluster finds out by itself, a minute after a machine went dark."""
        await self.nodes.power_off(name)
        condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent"}
        await self.kube(
            "PATCH",
            f"/api/v1/nodes/{name}/status",
            {"status": {"conditions": [condition]}},
            "application/strategic-merge-patch+json",
        )

    async def kill(self, ccm: Ccm) -> None:
        """End a process that can give nothing back; its lease has run out at once."""
        await ccm.stop(signal.SIGKILL)
        if await self.read(LEASE) is not None:
            await self.kube("DELETE", LEASE)

    async def tidy_up(self) -> None:
        for ccm in self.running:
            await self.kill(ccm)
        self.running.clear()
        self.token_file.write_text(TOKEN, encoding="ascii")
        await self.sky.heal()

    async def kube(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        return await asyncio.to_thread(self.cluster.api().request, method, path, body, kind)

    async def read(self, path: str) -> Any:
        """An object of the API server, or None."""
        return await asyncio.to_thread(self.cluster.api().get, path)

    async def routes(self) -> dict[str, str]:
        found = (await self.sky.call("GET", f"/networks/{self.network}"))["network"]["routes"]
        return {route["destination"]: route["gateway"] for route in found}

    async def events(self, name: str) -> dict[str, str]:
        """Messages by reason, of all events about an object."""
        found = await self.read("/api/v1/events?limit=500")
        items = [item for item in found["items"] if item["involvedObject"]["name"] == name]
        return {item["reason"]: item["message"] for item in items}

    async def node(self, name: str, wanted: Callable[[dict[str, Any]], object], seconds: float = 60) -> Any:
        return await self.eventually(lambda: self.read(f"/api/v1/nodes/{name}"), wanted, seconds)

    async def eventually(self, look: Callable[[], Any], wanted: Callable[[Any], object], seconds: float = 60):
        """What ``look`` gives, once it is as wanted."""
        end = time.monotonic() + seconds
        while True:
            found = await look()
            if found is not None and wanted(found):
                return found
            assert time.monotonic() < end, f"still {found}\n{self.running[-1].text()[-4000:]}"
            await asyncio.sleep(0.05)

    def audited(self) -> list[dict[str, Any]]:
        """The API server's log of all that CCMs asked so far."""
        lines = (self.directory / AUDIT).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    async def ready(self, ccm: Ccm) -> None:
        await self.eventually(
            lambda: ccm.get("/readyz?verbose"), lambda a: a[0] == 200 and "node-route" in a[1]
        )


def own_rights() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((TREE / "manifests" / "rbac.yaml").read_text(encoding="utf-8")))


@asynccontextmanager
async def open_world(
    programs: Toolchain,
    directory: Path,
    rights: Sequence[dict[str, Any]] | None = None,
    before: Callable[[ControlPlane], CloudConfig] | None = None,
    extra: Mapping[str, Mapping[str, str]] | None = None,
) -> AsyncIterator[World]:
    """A control plane with our rights in it, or with others, and a cloud with one network.

    ``before`` puts objects into the cluster, and says how the cloud begins. ``extra`` has further flags by
    component.
    """
    audit = {"audit-policy-file": str(directory / "policy.json"), "audit-log-path": str(directory / AUDIT)}
    flags = {**(extra or {}), "kube-apiserver": {**audit, **(extra or {}).get("kube-apiserver", {})}}
    (directory / "policy.json").write_text(json.dumps(AUDIT_POLICY), encoding="utf-8")
    async with (
        ControlPlane(programs, directory / "cluster", extra=flags) as cluster,
        HollowNodes(cluster.url, directory / "cluster" / "tls") as nodes,
    ):
        kubeconfig = await asyncio.to_thread(_grant, cluster, directory, rights or own_rights())
        sky = await emulated_cloud.start(await asyncio.to_thread(before, cluster) if before else None)
        try:
            networks = await sky.networks() or [await sky.network()]
            world = World(cluster, nodes, sky, networks[0], directory, kubeconfig)
            world.token_file.write_text(TOKEN, encoding="ascii")
            try:
                yield world
            finally:
                await world.tidy_up()
        finally:
            await emulated_cloud.stop(sky)


def _grant(cluster: ControlPlane, directory: Path, rights: Sequence[dict[str, Any]]) -> Path:
    """Create rights, and a kubeconfig of their service account."""
    api = cluster.api()
    for item in rights:
        place = PLACES[item["kind"]] if "namespace" not in item["metadata"] else _namespaced(item)
        api.request("POST", place, item)
    account = f"{PLACES['ServiceAccount']}/cloud-controller-manager"
    token = api.request("POST", f"{account}/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    authority = Pki(cluster.directory / "tls").server_authority.certificate
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": cluster.url, "certificate-authority": str(authority)}}
        ],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = directory / "kubeconfig.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def _namespaced(item: dict[str, Any]) -> str:
    return PLACES[item["kind"]].replace("kube-system", item["metadata"]["namespace"])


def admin_tls(directory: Path) -> ssl.SSLContext:
    """Shows the administrator's client certificate; the CCM's own certificate is not checked."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    keys = Pki(directory)
    context.load_cert_chain(keys.certificate(pki.ADMIN), keys.key(pki.ADMIN))
    return context
