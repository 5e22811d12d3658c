"""Waits until every server is a Node that is ready and that the cloud-controller-manager has initialised."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, Resource

from infra.cni import bridge_script
from infra.dynamic import Provider
from infra.errors import InfraError, NodesError
from infra.inventory import Servers
from infra.remote import Host, Shell, connect, tail
from infra.server import host_of

WAIT_SECONDS = 180.0
POLL_SECONDS = 0.3
NETWORK_PATIENCE = 12.0
"""Seconds that a node with a range for its Pods may lack a network before it gets one from us."""

_LIST = "k3s kubectl get nodes -o json"
_LOGS = "k3s kubectl -n kube-system logs deployment/ccm-from-scratch --tail=8 2>&1 || true"
_TAINT = "node.cloudprovider.kubernetes.io/uninitialized"


@dataclass(frozen=True)
class NodeView:
    """What matters of a Node."""

    name: str
    ready: bool
    reason: str
    server_id: str
    initialised: bool
    pod_cidr: str

    @property
    def lacks(self) -> str:
        """What is missing, for a person; empty when nothing is."""
        if not self.initialised:
            return "the cloud-controller-manager has not initialised it"
        return "" if self.ready else f"it is not ready: {self.reason or 'its kubelet says nothing'}"

    @property
    def lacks_network(self) -> bool:
        """Whether it waits for nothing but a network for its Pods."""
        return not self.ready and bool(self.pod_cidr) and "cni plugin not initialized" in self.reason


def view(node: Mapping[str, Any]) -> NodeView:
    """Reads a Node object."""
    spec, conditions = node.get("spec", {}), node.get("status", {}).get("conditions", [])
    ready = next((item for item in conditions if item["type"] == "Ready"), {})
    tainted = any(taint["key"] == _TAINT for taint in spec.get("taints", []))
    return NodeView(
        name=node["metadata"]["name"],
        ready=ready.get("status") == "True",
        reason=ready.get("message", ""),
        server_id=spec.get("providerID", "").rpartition("://")[2],
        initialised=bool(spec.get("providerID")) and not tainted,
        pod_cidr=spec.get("podCIDR", ""),
    )


def lacking(wanted: Mapping[str, str], nodes: Mapping[str, NodeView]) -> dict[str, str]:
    """What each wanted node lacks; complete nodes are not in it.

    Args:
        wanted: id of the server by name of the node.
        nodes: what the cluster has, by name.
    """
    state = {name: _lacks(nodes.get(name), server_id) for name, server_id in wanted.items()}
    return {name: what for name, what in state.items() if what}


def _lacks(node: NodeView | None, server_id: str) -> str:
    if node is None:
        return "it has not joined the cluster"
    if node.initialised and node.server_id != server_id:
        return f"there is an older node of that name, of server {node.server_id}"
    return node.lacks


class ReadyNodesProvider(Provider):
    """Waits, and gives nodes a network where nothing else does."""

    unheeded = ("private_key", "host_key", "address")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Ends when nothing is lacking."""
        hosts = {name: host_of({**props, **at}) for name, at in props["nodes"].items()}
        servers = {name: at["id"] for name, at in props["nodes"].items()}
        asyncio.run(_Wait(hosts, servers, native=props["cni"] == "native").run(host_of(props)))
        return CreateResult(props["server_id"], dict(props))


class ReadyNodes(Resource, module="ccm-from-scratch", name="ReadyNodes"):
    """All servers as nodes that take Pods."""

    def __init__(
        self,
        name: str,
        servers: Servers,
        cni: str,
        revision: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Waits for the nodes.

        Args:
            name: of the resource.
            servers: all of which shall be nodes.
            cni: `native` or another one, which then is not our business.
            revision: of everything that could make nodes not ready; a change makes us wait for them again.
            opts: as for every resource.
        """
        nodes = {
            server.name: {
                "address": server.public_ip,
                "host_key": server.access.host_key,
                "id": server.server.id,
            }
            for server in [servers.control, *servers.workers]
        }
        props = {**servers.control.access.inputs(), "nodes": nodes, "cni": cni, "revision": revision}
        super().__init__(ReadyNodesProvider(), name, props, opts)


class _Wait:
    """One wait for a set of nodes."""

    def __init__(self, hosts: Mapping[str, Host], servers: Mapping[str, str], *, native: bool) -> None:
        self._hosts = hosts
        self._servers = servers
        self._native = native
        self._without_network: dict[str, float] = {}
        self._given: set[str] = set()

    async def run(self, control: Host) -> None:
        async with connect(control) as shell:
            deadline = time.monotonic() + WAIT_SECONDS
            while missing := lacking(self._servers, nodes := await self._look(shell)):
                if time.monotonic() > deadline:
                    raise NodesError(await self._report(shell, missing))
                if self._native:
                    await self._give_networks(nodes)
                await asyncio.sleep(POLL_SECONDS)

    async def _look(self, shell: Shell) -> dict[str, NodeView]:
        answer = await shell.run(_LIST, what="listing the nodes", timeout=30)
        return {
            item.name: item for item in map(view, json.loads(answer)["items"]) if item.name in self._hosts
        }

    async def _give_networks(self, nodes: Mapping[str, NodeView]) -> None:
        now = time.monotonic()
        for name, node in nodes.items():
            if not node.lacks_network or name in self._given:
                self._without_network.pop(name, None)
            elif now - self._without_network.setdefault(name, now) > NETWORK_PATIENCE:
                self._given.add(name)
                async with connect(self._hosts[name]) as shell:
                    await shell.run(bridge_script(node.pod_cidr), what="giving Pods a network", timeout=30)

    async def _report(self, shell: Shell, missing: Mapping[str, str]) -> str:
        lines = "\n".join(f"  - {name}: {what}" for name, what in missing.items())
        try:
            logs = tail(await shell.run(_LOGS, what="reading the CCM's log", timeout=20), 8)
        except InfraError as error:
            logs = str(error)
        (name, host) = next((name, self._hosts[name]) for name in missing)
        return (
            f"after {WAIT_SECONDS:.0f} s nodes are missing something:\n{lines}\n"
            f"the cloud-controller-manager said last:\n{logs}\n"
            f"look at {name} with: ssh -i .dev-env.ssh {host.user}@{host.address} journalctl -eu 'k3s*'"
        )
