"""Deletes the Node object and the node password of a worker, before a new one joins and after it leaves.

A recreated worker has the same name. While the old Node object exists, the cloud-controller-manager keeps the
old provider ID. While the Secret with the old machine's node password exists, k3s refuses the new machine.
k3s deletes that Secret some time after the Node, or after ten minutes if the machine never became a Node.
"""

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, UpdateResult

from ..config.pools import taint_parts
from ..lib.dynamic import CloudProvider, ProviderResource
from ..lib.errors import InfraError, RemoteCommandError
from ..lib.ssh import Host, connect_first, read_object, run_once
from ..servers.server import hosts_of
from .peers import control_hosts

_LEAVE_CONNECT_SECONDS = 4.0
_SECONDS = 45.0
_DELETE_NODE = "k3s kubectl delete node --ignore-not-found --timeout=30s"
_DELETE_PASSWORD = "k3s kubectl --namespace=kube-system delete secret --ignore-not-found --timeout=10s"  # noqa: S105


_PATCH_ATTEMPTS = 5
_CONFLICT = "the object has been modified"


@dataclass(frozen=True)
class NodeMetadata:
    """The labels of a pool's Nodes, and their taints as kubectl writes them."""

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[str] = ()


def node_metadata_of(props: Mapping[str, Any]) -> NodeMetadata:
    """The labels and taints in a NodeRegistration's properties; the state of earlier versions has none."""
    return NodeMetadata(props.get("node_labels") or {}, tuple(props.get("node_taints") or ()))


class NodeRegistrationProvider(CloudProvider):
    """Deletes Node objects of deleted servers, and of servers that are about to be deleted."""

    # another control server is another cluster, in which there is nothing to delete
    replaced_by = ("member_id", "node")
    ignored_inputs = ("private_key",)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Deletes a Node of this name that belongs to another server."""
        script = free_name_script(props["node"], props["member_id"])
        what = f"looking for an older Node with the name {props['node']}"
        asyncio.run(run_once(hosts_of(props), script, what=what, timeout=_SECONDS))
        return CreateResult(f"{props['node']}/{props['member_id']}", dict(props))

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Frees the name in another cluster, and patches changed labels and taints of an existing Node.

        k3s gets them as flags, too, but that is not enough: it sets taints only when a Node joins, adds
        labels whenever it starts, and removes none (``updateMutableLabels`` in its pkg/agent/run.go).
        """
        if _olds["server_id"] != _news["server_id"]:
            self.create(_news)
        before, after = node_metadata_of(_olds), node_metadata_of(_news)
        if before != after:
            asyncio.run(_patch_node(hosts_of(_news), _news["node"], before, after))
        return UpdateResult(dict(_news))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Removes the Node from the cluster before its server is deleted."""
        script, what = unregister_script(_props["node"]), f"deleting the node {_props['node']}"
        try:
            hosts = control_hosts(self.cloud(), _props) or hosts_of(_props)
            asyncio.run(run_once(hosts, script, what=what, timeout=_SECONDS, within=_LEAVE_CONNECT_SECONDS))
        except InfraError as error:
            # the cloud-controller-manager deletes it, too, after its server is deleted
            print(f"the node {_props['node']} was not deleted: {error}")


class NodeRegistration(ProviderResource, provider=NodeRegistrationProvider, type_name="Membership"):
    """A worker's Node in the cluster."""

    node: pulumi.Output[str]


def free_name_script(node: str, server_id: str) -> str:
    """Deletes the Node of another server, and the password of any other machine. If there is no Node, it
    deletes only the password.

    The cloud-controller-manager has not processed a Node without a provider ID. It may be of the new machine,
    or of the previous one: k3s exits when its Node is deleted, systemd starts it again, and until its server
    is deleted it registers with a new Secret (https://github.com/k3s-io/k3s/issues/13072). So that Node stays
    for the new machine, without the password. k3s creates the Secret again for a running machine.
    """
    name = shlex.quote(node)
    fields = "'{.kind} {.spec.providerID}'"
    return f"""node=$(k3s kubectl get node {name} --ignore-not-found -o jsonpath={fields}) || exit 1
case "$node" in
  *://{server_id}) ;;
  '' | 'Node ') {_delete_password(node)} ;;
  *) {unregister_script(node)} ;;
esac"""


def unregister_script(node: str) -> str:
    """Deletes the Node, then its password: with the password the machine could register again."""
    return f"{_DELETE_NODE} {shlex.quote(node)} && {_delete_password(node)}"


async def delete_node_passwords(hosts: Sequence[Host], nodes: Sequence[str]) -> None:
    """Lets other machines, or machines with another node password, use the names of Nodes, which stay. k3s
    keeps the password of each Node in a Secret, and creates another Secret for the next machine that joins.
    """
    what = f"deleting the node passwords of {', '.join(nodes)}"
    await run_once(hosts, _delete_password(*nodes), what=what, timeout=_SECONDS)


def _delete_password(*nodes: str) -> str:
    return f"{_DELETE_PASSWORD} {shlex.join(f'{node}.node-password.k3s' for node in nodes)}"


def node_metadata_patch(node: Mapping[str, Any], before: NodeMetadata, after: NodeMetadata) -> dict[str, Any]:
    """The JSON merge patch for a pool's changed labels and taints; empty if the Node has them.

    Labels and taints of others stay. The patch has the Node's resource version, so a concurrent change fails
    it.
    """
    has = node["metadata"].get("labels", {})
    wanted = {**{name: None for name in before.labels if name in has}, **after.labels}
    labels = {name: value for name, value in wanted.items() if has.get(name) != value}
    taints = node.get("spec", {}).get("taints", [])
    parts = [taint_parts(text) for text in after.taints]
    ours = {(key, effect) for key, _, effect in [*parts, *(taint_parts(text) for text in before.taints)]}
    ours_now = [
        {"key": key, **({"value": value} if value else {}), "effect": effect} for key, value, effect in parts
    ]
    there = [taint for taint in taints if taint in ours_now]
    others = [taint for taint in taints if (taint["key"], taint["effect"]) not in ours]
    tainted = [*others, *there, *(taint for taint in ours_now if taint not in there)]
    patch: dict[str, Any] = {}
    if labels:
        patch["metadata"] = {"labels": labels}
    if len(tainted) != len(taints) or any(taint not in taints for taint in tainted):
        patch["spec"] = {"taints": tainted}
    if patch:
        patch.setdefault("metadata", {})["resourceVersion"] = node["metadata"]["resourceVersion"]
    return patch


async def _patch_node(hosts: Sequence[Host], node: str, before: NodeMetadata, after: NodeMetadata) -> None:
    what, name = f"changing labels and taints of the node {node}", shlex.quote(node)
    async with connect_first(hosts) as shell:
        for attempt in range(1, _PATCH_ATTEMPTS + 1):
            found = await read_object(shell, "node", node, what=what, timeout=_SECONDS)
            patch = node_metadata_patch(found, before, after) if found else {}
            if not patch:
                return
            command = f"k3s kubectl patch node {name} --type=merge -p {shlex.quote(json.dumps(patch))}"
            try:
                await shell.run(command, what=what, timeout=_SECONDS)
            except RemoteCommandError as error:
                if _CONFLICT not in error.tail or attempt == _PATCH_ATTEMPTS:
                    raise
