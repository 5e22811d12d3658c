"""Waits until every server is a Node that is ready and that the cloud-controller-manager has initialised.

And gives back those that an upgrade has left cordoned: it was ended, or is not wanted any more.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, ReadResult, Resource

from .drain import UPGRADING
from .dynamic import Provider
from .errors import InfraError, NodesError
from .inventory import Servers
from .readmission import readmit
from .remote import Host, Shell, connect_first, tail
from .server import host_at, hosts_of

WAIT_SECONDS = 180.0
POLL_SECONDS = 0.3
_LOOK_CONNECT_SECONDS = 4.0

_LIST = "k3s kubectl get nodes -o json"
_LOGS = "k3s kubectl -n kube-system logs deployment/ccm-from-scratch --tail=8 2>&1 || true"
NOT_JOINED = "it has not joined the cluster"
_TAINT = "node.cloudprovider.kubernetes.io/uninitialized"
_CONTROL = "node-role.kubernetes.io/control-plane"


@dataclass(frozen=True)
class NodeView:
    """What matters of a Node.

    Attributes:
        name: Its name.
        ready: Whether it takes Pods.
        reason: Why not.
        server_id: In its provider ID; empty without one.
        initialised: Whether the cloud-controller-manager has looked at it.
        pod_cidr: The range of its Pods.
        is_silent: Whether its kubelet says nothing (any more).
        has_route: Whether its Pods can be reached through the cloud's network, as its condition says.
        is_control: Whether it is a control server's.
        version: Of its kubelet.
        upgrading: Whether it was cordoned for an upgrade.
    """

    name: str
    ready: bool
    reason: str
    server_id: str
    initialised: bool
    pod_cidr: str
    is_silent: bool
    has_route: bool
    is_control: bool
    version: str
    upgrading: bool

    @property
    def lacks(self) -> str:
        """What is missing, for a person; empty when nothing is."""
        if not self.initialised:
            return "the cloud-controller-manager has not initialised it"
        return "" if self.ready else f"it is not ready: {self.reason or 'its kubelet says nothing'}"


def view(node: Mapping[str, Any]) -> NodeView:
    """Reads a Node object."""
    spec, status = node.get("spec", {}), node.get("status", {})
    conditions = {item["type"]: item for item in status.get("conditions", [])}
    ready = conditions.get("Ready", {})
    tainted = any(taint["key"] == _TAINT for taint in spec.get("taints", []))
    return NodeView(
        name=node["metadata"]["name"],
        ready=ready.get("status") == "True",
        reason=ready.get("message", ""),
        server_id=spec.get("providerID", "").rpartition("://")[2],
        initialised=bool(spec.get("providerID")) and not tainted,
        pod_cidr=spec.get("podCIDR", ""),
        is_silent=ready.get("status", "Unknown") == "Unknown",
        has_route=conditions.get("NetworkUnavailable", {}).get("status") == "False",
        is_control=_CONTROL in node["metadata"].get("labels", {}),
        version=status.get("nodeInfo", {}).get("kubeletVersion", ""),
        upgrading=UPGRADING in node["metadata"].get("annotations", {}),
    )


async def read_nodes(shell: Shell) -> dict[str, NodeView]:
    """The cluster's nodes by name, asked for on the control server."""
    answer = await shell.run(_LIST, what="listing the nodes", timeout=30)
    return {item.name: item for item in map(view, json.loads(answer)["items"])}


def node_inputs(servers: Servers) -> dict[str, dict[str, pulumi.Input[Any]]]:
    """Which servers shall be nodes and how to reach each, as an input of a dynamic resource."""
    return {
        server.name: {
            **server.access.way(),
            "id": server.server.id,
        }
        for server in [*servers.controls, *servers.workers]
    }


def lacking(wanted: Mapping[str, str], nodes: Mapping[str, NodeView]) -> dict[str, str]:
    """What each wanted node lacks; complete nodes are not in it.

    Args:
        wanted: Id of the server by name of the node.
        nodes: What the cluster has, by name.
    """
    state = {name: _lacks(nodes.get(name), server_id) for name, server_id in wanted.items()}
    return {name: what for name, what in state.items() if what}


def _lacks(node: NodeView | None, server_id: str) -> str:
    if node is None:
        return NOT_JOINED
    if node.initialised and node.server_id != server_id:
        return f"there is an older node of that name, of server {node.server_id}"
    return node.lacks


class ReadyNodesProvider(Provider):
    """Waits."""

    unheeded = ("private_key", "host_key", "address", "others")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Ends when nothing is lacking, and no Node waits for the end of an upgrade.

        All agents come before, so whoever still waits is not to be upgraded, or has been.
        """
        servers = {name: at["id"] for name, at in props["nodes"].items()}
        hosts = {name: host_at(at, props["private_key"]) for name, at in props["nodes"].items()}
        asyncio.run(_wait(hosts_of(props), servers, hosts))
        return CreateResult(props["server_id"], dict(props))

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Looks for Nodes that an upgrade has left cordoned: then the next run has them to give back."""
        try:
            nodes = asyncio.run(_look(hosts_of(props)))
        except InfraError as error:
            print(f"whether an upgrade has left nodes cordoned is unknown: {error}")
            return ReadResult(id_, dict(props))
        left = any(node.upgrading for node in nodes.values())
        return ReadResult(id_, {**props, **({"revision": ""} if left else {})})


class ReadyNodes(Resource, module="ccm-from-scratch", name="ReadyNodes"):
    """All servers as nodes that take Pods."""

    def __init__(
        self,
        name: str,
        servers: Servers,
        revision: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Waits for the nodes.

        Args:
            name: Of the resource.
            servers: All of which shall be nodes.
            revision: Of everything that could make nodes not ready; a change makes us wait for them again.
            opts: As for every resource.
        """
        props = {**servers.control_inputs(), "nodes": node_inputs(servers), "revision": revision}
        super().__init__(ReadyNodesProvider(), name, props, opts)


async def _wait(controls: Sequence[Host], servers: Mapping[str, str], hosts: Mapping[str, Host]) -> None:
    async with connect_first(controls) as shell:
        deadline = time.monotonic() + WAIT_SECONDS
        while missing := lacking(servers, nodes := await read_nodes(shell)):
            if time.monotonic() > deadline:
                raise NodesError(await _report(shell, missing, hosts))
            await asyncio.sleep(POLL_SECONDS)
        for node in nodes.values():
            if node.upgrading:
                await readmit(shell, node.name)


async def _look(controls: Sequence[Host]) -> dict[str, NodeView]:
    async with connect_first(controls, timeout=_LOOK_CONNECT_SECONDS) as shell:
        return await read_nodes(shell)


async def _report(shell: Shell, missing: Mapping[str, str], hosts: Mapping[str, Host]) -> str:
    lines = "\n".join(f"  - {name}: {what}" for name, what in missing.items())
    try:
        logs = tail(await shell.run(_LOGS, what="reading the CCM's log", timeout=20), 8)
    except InfraError as error:
        logs = str(error)
    name = next(iter(missing))
    return (
        f"after {WAIT_SECONDS:.0f} s nodes are missing something:\n{lines}\n"
        f"the cloud-controller-manager said last:\n{logs}\n"
        f"look at {name} with the key of the stack: "
        f"{ssh_command(hosts[name])} journalctl -eu 'k3s*'"
    )


def ssh_command(host: Host, key: str = ".dev-env.STACK.ssh") -> str:
    """What a person types to get to a host.

    Args:
        host: Of a server.
        key: File with its key.
    """
    through = (
        f"-o ProxyCommand='ssh -i {host.jump.key_file or key} -W %h:%p {host.jump.user}@{host.jump.address}' "
        if host.jump
        else ""
    )
    return f"ssh -i {key} {through}{host.user}@{host.address}"
