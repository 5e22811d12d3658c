"""A worker's name in the cluster: free when the worker comes, free again when it goes.

A worker made anew has the name of its predecessor. While the old Node object is there, the
cloud-controller-manager keeps the old provider ID; while the Secret with the old machine's node password is
there, k3s refuses the new machine. k3s deletes that Secret some time after the Node, and the one of a machine
that never became a Node after ten minutes.
"""

from __future__ import annotations

import asyncio
import shlex
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, Resource

from .dynamic import Provider
from .errors import InfraError
from .remote import Host, connect
from .server import Server, host_of

_CONNECT_SECONDS = 30.0
_LEAVE_CONNECT_SECONDS = 4.0
_SECONDS = 45.0
_DELETE_NODE = "k3s kubectl delete node --ignore-not-found --timeout=30s"
_DELETE_PASSWORD = "k3s kubectl --namespace=kube-system delete secret --ignore-not-found --timeout=10s"  # noqa: S105


class MembershipProvider(Provider):
    """Deletes Node objects of servers that are gone or are about to go."""

    # another control server has another cluster, in which there is nothing to delete
    replaced_by = ("member_id", "node")
    unheeded = ("private_key", "host_key", "address")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Makes room: a Node of this name that is another server's is deleted."""
        script = make_room_script(props["node"], props["member_id"])
        what = f"looking for an older node {props['node']}"
        asyncio.run(_run(host_of(props), script, what, _CONNECT_SECONDS))
        return CreateResult(f"{props['node']}/{props['member_id']}", dict(props))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Takes the Node out of the cluster, before its server is deleted."""
        script, what = leave_script(_props["node"]), f"deleting the node {_props['node']}"
        try:
            asyncio.run(_run(host_of(_props), script, what, _LEAVE_CONNECT_SECONDS))
        except InfraError as error:
            # the cloud-controller-manager deletes it, too, once its server is gone
            print(f"the node {_props['node']} was not deleted: {error}")


class Membership(Resource, module="ccm-from-scratch", name="Membership"):
    """A worker as a member of the cluster of a control server."""

    node: pulumi.Output[str]

    def __init__(
        self, name: str, control: Server, worker: Server, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        props = {**control.access.inputs(), "node": worker.name, "member_id": worker.server.id}
        super().__init__(MembershipProvider(), name, props, opts)


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


def _delete_password(node: str) -> str:
    return f"{_DELETE_PASSWORD} {shlex.quote(f'{node}.node-password.k3s')}"


async def _run(host: Host, script: str, what: str, connect_seconds: float) -> None:
    async with connect(host, timeout=connect_seconds) as shell:
        await shell.run(script, what=what, timeout=_SECONDS)
