"""A worker's name in the cluster: free when the worker comes, free again when it goes.

A worker made anew has the name of its predecessor. While the old Node object is there, the
cloud-controller-manager keeps the old provider ID; while the Secret with the old machine's node password is
there, k3s refuses the new machine. k3s deletes that Secret some time after the Node, and the one of a machine
that never became a Node after ten minutes.
"""

from __future__ import annotations

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

_CONNECT_SECONDS = 30.0
_LEAVE_CONNECT_SECONDS = 4.0
_SECONDS = 45.0
_DELETE_NODE = "k3s kubectl delete node --ignore-not-found --timeout=30s"
_DELETE_PASSWORD = "k3s kubectl --namespace=kube-system delete secret --ignore-not-found --timeout=10s"  # noqa: S105


_PATCH_ATTEMPTS = 5
_CONFLICT = "the object has been modified"


@dataclass(frozen=True)
class Marks:
    """What a pool gives its Nodes.

    Attributes:
        labels: By key.
        taints: As kubectl writes them.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[str] = ()


def marks_of(props: Mapping[str, Any]) -> Marks:
    """The marks that a Membership's properties name; a state of earlier versions names none."""
    return Marks(props.get("node_labels") or {}, tuple(props.get("node_taints") or ()))


class MembershipProvider(CloudProvider):
    """Deletes Node objects of servers that are gone or are about to go."""

    # another control server has another cluster, in which there is nothing to delete
    replaced_by = ("member_id", "node")
    unheeded = ("private_key", "host_key", "address")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Makes room: a Node of this name that is another server's is deleted."""
        script = make_room_script(props["node"], props["member_id"])
        what = f"looking for an older node {props['node']}"
        asyncio.run(run_once(hosts_of(props), script, what=what, timeout=_SECONDS, within=_CONNECT_SECONDS))
        return CreateResult(f"{props['node']}/{props['member_id']}", dict(props))

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Makes room in another cluster, and brings changed labels and taints to a Node that is there.

        k3s is told anew, too, and that is not enough: it gives a Node its taints only when it joins, adds
        labels whenever it starts, and takes nothing away (``updateMutableLabels`` in its pkg/agent/run.go).
        """
        if _olds["server_id"] != _news["server_id"]:
            self.create(_news)
        before, after = marks_of(_olds), marks_of(_news)
        if before != after:
            asyncio.run(_mark(hosts_of(_news), _news["node"], before, after))
        return UpdateResult(dict(_news))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Takes the Node out of the cluster, before its server is deleted."""
        script, what = leave_script(_props["node"]), f"deleting the node {_props['node']}"
        try:
            hosts = control_hosts(self.cloud(), _props) or hosts_of(_props)
            asyncio.run(run_once(hosts, script, what=what, timeout=_SECONDS, within=_LEAVE_CONNECT_SECONDS))
        except InfraError as error:
            # the cloud-controller-manager deletes it, too, once its server is gone
            print(f"the node {_props['node']} was not deleted: {error}")


class Membership(ProviderResource, provider=MembershipProvider):
    """A worker as a member of the cluster of control servers."""

    node: pulumi.Output[str]


def make_room_script(node: str, server_id: str) -> str:
    """Deletes the node unless it is the one of that server, and the password of any other machine.

    A cluster that isn't there yet has no nodes. A node without an ID has not been looked at by the
    cloud-controller-manager and may be the one that we wait for. It may as well be the predecessor's: k3s
    ends when its Node is deleted, systemd starts it again, and until its server is gone it is back with a new
    Secret (https://github.com/k3s-io/k3s/issues/13072). So that Node stays for the machine that comes,
    without the password; k3s makes the Secret anew for a machine that is there already.
    """
    name = shlex.quote(node)
    return f"""command -v k3s >/dev/null || exit 0
k3s kubectl get --raw /readyz >/dev/null 2>&1 || exit 0
node=$(k3s kubectl get node {name} --ignore-not-found -o jsonpath='{{.kind}} {{.spec.providerID}}') || exit 1
case "$node" in
  *://{server_id}) ;;
  'Node ') {_delete_password(node)} ;;
  *) {leave_script(node)} ;;
esac"""


def leave_script(node: str) -> str:
    """Deletes the node, then its password: the machine could come back as long as that is there."""
    return f"{_DELETE_NODE} {shlex.quote(node)} && {_delete_password(node)}"


async def forget_machines(hosts: Sequence[Host], nodes: Sequence[str]) -> None:
    """Lets other machines, or machines with another node password, join as Nodes, which stay.

    k3s keeps the password of each Node in a Secret, and makes a new Secret for the machine that joins next.

    Args:
        hosts: Control servers; the first that answers is asked.
        nodes: Names.

    Raises:
        InfraError: The cluster could not be asked.
    """
    what = f"letting machines join as {', '.join(nodes)}"
    await run_once(hosts, _delete_password(*nodes), what=what, timeout=_SECONDS, within=_CONNECT_SECONDS)


def _delete_password(*nodes: str) -> str:
    return f"{_DELETE_PASSWORD} {shlex.join(f'{node}.node-password.k3s' for node in nodes)}"


def marks_patch(node: Mapping[str, Any], before: Marks, after: Marks) -> dict[str, Any]:
    """The JSON merge patch that brings a pool's change of marks to a Node; empty when it has them.

    What others gave the Node stays, and only the Node as it was read is changed.

    Args:
        node: As the API gives it.
        before: What the pool gave it until now.
        after: What it shall give it.
    """
    has = node["metadata"].get("labels", {})
    wanted = {**{name: None for name in before.labels if name in has}, **after.labels}
    labels = {name: value for name, value in wanted.items() if has.get(name) != value}
    taints = node.get("spec", {}).get("taints", [])
    parts = [taint_parts(text) for text in after.taints]
    ours = {(key, effect) for key, _, effect in [*parts, *(taint_parts(text) for text in before.taints)]}
    given = [
        {"key": key, **({"value": value} if value else {}), "effect": effect} for key, value, effect in parts
    ]
    there = [taint for taint in taints if taint in given]
    others = [taint for taint in taints if (taint["key"], taint["effect"]) not in ours]
    tainted = [*others, *there, *(taint for taint in given if taint not in there)]
    patch: dict[str, Any] = {}
    if labels:
        patch["metadata"] = {"labels": labels}
    if len(tainted) != len(taints) or any(taint not in taints for taint in tainted):
        patch["spec"] = {"taints": tainted}
    if patch:
        patch.setdefault("metadata", {})["resourceVersion"] = node["metadata"]["resourceVersion"]
    return patch


async def _mark(hosts: Sequence[Host], node: str, before: Marks, after: Marks) -> None:
    what, name = f"changing labels and taints of the node {node}", shlex.quote(node)
    async with connect_first(hosts, timeout=_CONNECT_SECONDS) as shell:
        for attempt in range(1, _PATCH_ATTEMPTS + 1):
            found = await read_object(shell, "node", node, what=what, timeout=_SECONDS)
            patch = marks_patch(found, before, after) if found else {}
            if not patch:
                return
            command = f"k3s kubectl patch node {name} --type=merge -p {shlex.quote(json.dumps(patch))}"
            try:
                await shell.run(command, what=what, timeout=_SECONDS)
            except RemoteCommandError as error:
                if _CONFLICT not in error.tail or attempt == _PATCH_ATTEMPTS:
                    raise
