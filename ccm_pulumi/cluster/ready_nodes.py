"""Waits until every server is a Node that is ready and that the cloud-controller-manager has initialized.

It also uncordons Nodes that an upgrade left cordoned because it was interrupted or is no longer wanted.
"""

import asyncio
import json
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult

from ..lib.dynamic import ProviderResource
from ..lib.errors import InfraError, RemoteCommandError
from ..lib.ssh import Host, Shell, connect_first, run_once, tail
from ..servers.probe import PROBES, NoReport, ServerProvider, first_nodes
from ..servers.server import host_at, hosts_of
from ..servers.servers import Servers
from .drain import UPGRADING, readmit
from .node_registration import delete_node_passwords

WAIT_SECONDS = 180.0
POLL_SECONDS = 1.0  # each poll starts a kubectl on a control server
_REPORT_CONNECT_SECONDS = 6.0

_LIST = "k3s kubectl get nodes -o json"
_LOGS = "k3s kubectl -n kube-system logs deployment/ccm-from-scratch --tail=8 2>&1 || true"
_OF_SERVER = """for unit in k3s k3s-agent; do
  [ -e /etc/systemd/system/$unit.service ] || continue
  echo $unit: $(systemctl show --property=ActiveState,SubState,UnitFileState,Result $unit)
  journalctl -u $unit -n 4 --no-pager -o cat
  exit 0
done
echo 'k3s is not installed'"""
"""Script that prints the state of k3s, for a server that has no Node or whose Node isn't ready."""
NOT_JOINED = "the server has not joined the cluster"
_TAINT = "node.cloudprovider.kubernetes.io/uninitialized"
_CONTROL = "node-role.kubernetes.io/control-plane"


@dataclass(frozen=True)
class NodeView:
    """What matters of a Node."""

    name: str
    ready: bool
    reason: str  # why it isn't ready
    server_id: str  # in its provider ID; empty without one
    initialized: bool  # by the cloud-controller-manager
    pod_cidr: str
    is_silent: bool  # whether its kubelet reports no status (any more)
    has_route: bool  # whether its condition says that its Pods can be reached through the cloud's network
    is_control: bool
    version: str
    upgrading: bool

    @property
    def lacks(self) -> str:
        """What is missing, for a person; empty when nothing is."""
        if not self.initialized:
            return "the cloud-controller-manager has not initialized the Node"
        return (
            "" if self.ready else f"the Node is not ready: {self.reason or 'its kubelet reports no status'}"
        )


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
        initialized=bool(spec.get("providerID")) and not tainted,
        pod_cidr=spec.get("podCIDR", ""),
        is_silent=ready.get("status", "Unknown") == "Unknown",
        has_route=conditions.get("NetworkUnavailable", {}).get("status") == "False",
        is_control=_CONTROL in node["metadata"].get("labels", {}),
        version=status.get("nodeInfo", {}).get("kubeletVersion", ""),
        upgrading=UPGRADING in node["metadata"].get("annotations", {}),
    )


async def read_nodes(shell: Shell, deadline: float = 0.0) -> dict[str, NodeView]:
    """The cluster's Nodes by name, as the control server of ``shell`` lists them.

    Until ``deadline``, a time of ``time.monotonic``, a failure is retried. k3s restarts if it loses its
    leader election, as on a slow server that just joined.
    """
    while True:
        try:
            answer = await shell.run(_LIST, what="listing the nodes", timeout=30)
        except RemoteCommandError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(POLL_SECONDS)
        else:
            return {item.name: item for item in map(view, json.loads(answer)["items"])}


def node_inputs(servers: Servers) -> dict[str, dict[str, pulumi.Input[Any]]]:
    """Which servers shall be nodes and how to reach each, as an input of a dynamic resource."""
    return {
        server.name: {**server.access.way(), "id": server.server.id}
        for server in [*servers.controls, *servers.workers]
    }


def lacking(wanted: Mapping[str, str], nodes: Mapping[str, NodeView]) -> dict[str, str]:
    """What each incomplete node lacks. ``wanted`` has the ID of the server by name of the node."""
    state = {name: _lacks(nodes.get(name), server_id) for name, server_id in wanted.items()}
    return {name: what for name, what in state.items() if what}


def _lacks(node: NodeView | None, server_id: str) -> str:
    if node is None:
        return NOT_JOINED
    if node.initialized and node.server_id != server_id:
        return f"the Node belongs to an older server with the ID {node.server_id}"
    return node.lacks


class ReadyNodesProvider(ServerProvider):
    """Waits."""

    ignored_inputs = ("private_key", "host_key", "address", "others")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Returns when all Nodes are ready, and uncordons those that an upgrade left cordoned.

        All agents are updated before this, so a Node that is still marked needs no upgrade, or has had it.
        """
        asyncio.run(_wait(hosts_of(props), server_ids(props), _hosts(props)))
        return CreateResult(props["server_id"], dict(props))

    def where(self, props: Mapping[str, Any]) -> str:
        """Nothing: each line names its Node."""
        del props
        return ""

    def drift(self, props: Mapping[str, Any]) -> list[str]:
        """Compares servers with Nodes. If the cluster doesn't respond, the same run compares again later."""
        outcomes = PROBES.of([*hosts_of(props), *_hosts(props).values()])
        nodes = first_nodes(outcomes)
        if nodes is None:
            reason = next(
                (one.reason for one in outcomes if isinstance(one, NoReport)), "no API server is ready"
            )
            # the Kubernetes provider does not report objects that it could not read
            return [
                f"the cluster can't list its Nodes: {reason}",
                "Pulumi can't detect changes in the cluster. Repeat the command when the cluster responds",
            ]
        views = {name: view(node) for name, node in nodes.items()}
        missing = [f"{name}: {what}" for name, what in lacking(server_ids(props), views).items()]
        left = [
            f"{name}: an unfinished upgrade left this Node cordoned"
            for name, node in views.items()
            if node.upgrading
        ]
        return missing + left


def server_ids(props: Mapping[str, Any]) -> dict[str, str]:
    """Ids of the servers that should be Nodes, by name."""
    return {name: at["id"] for name, at in props["nodes"].items()}


def _hosts(props: Mapping[str, Any]) -> dict[str, Host]:
    return {name: host_at(at, props["private_key"]) for name, at in props["nodes"].items()}


class ReadyNodes(ProviderResource, provider=ReadyNodesProvider):
    """All servers as nodes that take Pods; another ``revision`` makes us wait for them again."""


async def _wait(controls: Sequence[Host], servers: Mapping[str, str], hosts: Mapping[str, Host]) -> None:
    async with connect_first(controls) as shell:
        deadline = time.monotonic() + WAIT_SECONDS
        nodes = await read_nodes(shell, deadline)
        # the cluster may refuse a machine that has lost its node password
        if silent := [name for name in servers if name in nodes and nodes[name].is_silent]:
            await delete_node_passwords(controls, silent)
        while missing := lacking(servers, nodes := await read_nodes(shell, deadline)):
            if time.monotonic() > deadline:
                raise InfraError(await _report(shell, missing, hosts))
            await asyncio.sleep(POLL_SECONDS)
        for node in nodes.values():
            if node.upgrading:
                await readmit(shell, node.name)


async def _report(shell: Shell, missing: Mapping[str, str], hosts: Mapping[str, Host]) -> str:
    try:
        logs = tail(await shell.run(_LOGS, what="reading the CCM's log", timeout=20), 8)
    except InfraError as error:
        logs = str(error)
    said = await asyncio.gather(*(_says(hosts[name]) for name in missing))
    parts = [
        f"  - {name}: {what}\n{textwrap.indent(tail(words, 6), '    ')}\n"
        f"    to read more of the log, run: {ssh_command(hosts[name])} journalctl -eu 'k3s*'"
        for (name, what), words in zip(missing.items(), said, strict=True)
    ]
    return "\n".join(
        [
            f"after {WAIT_SECONDS:.0f} s, these nodes aren't ready:",
            *parts,
            "the last log lines of the cloud-controller-manager:",
            logs,
        ]
    )


async def _says(host: Host) -> str:
    """What a server says of its k3s: the unit's state, and its last messages."""
    try:
        what = "reading the state of k3s"
        return await run_once([host], _OF_SERVER, what=what, timeout=20, within=_REPORT_CONNECT_SECONDS)
    except InfraError as error:
        return str(error)


def ssh_command(host: Host, key: str = ".dev-env.STACK.ssh") -> str:
    """What a person types to get to a host."""
    # the keys of an agent come first, and a server refuses a client after some of them
    ssh = "ssh -F none -o IdentitiesOnly=yes -i"
    through = (
        f"-o ProxyCommand='{ssh} {host.jump.key_file or key} -W %h:%p {host.jump.user}@{host.jump.address}' "
        if host.jump
        else ""
    )
    return f"{ssh} {key} {through}{host.user}@{host.address}"
