"""Servers of an autoscaled pool, which the cluster-autoscaler creates and Pulumi's state does not contain.

Deleting the pool deletes this resource, which drains and deletes the pool's servers. When the whole
environment is destroyed, it does not drain them. It then stops the cluster-autoscaler first, which would
replace deleted servers.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..cluster.drain import empty
from ..cluster.drain_on_delete import DrainingProvider, drain_seconds, traffic_to
from ..cluster.peers import control_hosts
from ..lib.cloud_api import Cloud, Patience, change, everything, fetcher
from ..lib.dynamic import ProviderResource
from ..lib.errors import CloudError, InfraError, NodeGroupError
from ..lib.ssh import Host, Shell, connect_first, read_object

LABEL = "hcloud/node-group"
"""The label by which the cluster-autoscaler finds the servers of a node group (its ``nodeGroupLabel``)."""
AUTOSCALER = "cluster-autoscaler"
"""Name of the cluster-autoscaler's Deployment, and value of the label ``app`` of its Pods."""

_CONNECT_SECONDS = 30.0
_AT_ONCE = 30.0
_ENDING_SECONDS = 90.0
# deleted, not scaled down: if the destroy fails, the next `up` creates it again
_STOP = f"k3s kubectl -n kube-system delete deployment {AUTOSCALER} --ignore-not-found"
_PODS = f"k3s kubectl -n kube-system get pods -l app={AUTOSCALER} -o json"
_PAUSE = 1.0


class NodeGroupProvider(DrainingProvider):
    """Does nothing until it is deleted."""

    id_format = "{group}/{network_id}"
    replaced_by = ("generation", "group", "network_id")
    ignored_inputs = ("private_key",)

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Deletes the group's servers and waits for that. Fails if control servers run, but none responds."""
        cloud = self.cloud()
        if hosts := control_hosts(cloud, _props):
            asyncio.run(_prepare(cloud, hosts, _props, drain_seconds(self._configuration, _props)))
        remove_servers(cloud, _props["group"], int(_props["network_id"]))


class NodeGroup(ProviderResource, provider=NodeGroupProvider):
    """The servers of an autoscaled pool: those in ``network_id`` whose label has the value ``group``."""


def servers_of(cloud: Cloud, group: str, network_id: int) -> list[Mapping[str, Any]]:
    """The servers of a group, as the cloud's API returns them, without those in other networks.

    A server without a network may be new: Hetzner attaches it after it has created it.
    """
    found = everything(fetcher(cloud), "servers", f"&label_selector={LABEL}%3D%3D{group}")
    return [server for server in found if not server["private_net"] or _is_in(server, network_id)]


def _is_in(server: Mapping[str, Any], network_id: int) -> bool:
    return network_id in {at["network"] for at in server["private_net"]}


def remove_servers(cloud: Cloud, group: str, network_id: int, patience: Patience | None = None) -> None:
    """Deletes all servers of a group and waits until they are gone; fails if some are left."""
    patience = patience or Patience()
    deadline = patience.now() + patience.seconds
    while found := servers_of(cloud, group, network_id):
        ours = [server for server in found if _is_in(server, network_id)]
        failed = [why for server in ours if (why := _delete(cloud, server["id"], patience))]
        if patience.now() >= deadline:
            names = ", ".join(f"{server['name']} ({server['id']})" for server in found)
            raise NodeGroupError(group, "; ".join([f"servers are left: {names}", *failed]))
        patience.sleep(patience.pause)


def _delete(cloud: Cloud, server_id: int, patience: Patience) -> str:
    """Why a server could not be deleted; empty if it was deleted."""
    try:
        change(cloud, "DELETE", f"/servers/{server_id}", patience=patience)
    except CloudError as error:
        return "" if error.status == 404 else str(error)
    return ""


def scales(pod_spec: Mapping[str, Any], group: str) -> bool:
    """Whether a cluster-autoscaler with this spec creates and removes servers of a group."""
    words = pod_spec["containers"][0].get("command", [])
    return any(word.startswith("--nodes=") and word.endswith(f":{group}") for word in words)


def is_wanted(deployment: Mapping[str, Any] | None, group: str) -> bool:
    """Whether the cluster-autoscaler still has a group. If so, the whole environment is being destroyed."""
    if deployment is None or deployment["metadata"].get("deletionTimestamp"):
        return False
    return scales(deployment["spec"]["template"]["spec"], group)


async def _prepare(cloud: Cloud, hosts: Sequence[Host], props: Mapping[str, Any], seconds: int) -> None:
    """Waits until no autoscaler creates servers of the group. If the whole environment is being destroyed,
    stops the autoscaler first. Otherwise, drains the group's servers.
    """
    group, network_id = props["group"], int(props["network_id"])
    what = "stopping the cluster-autoscaler"
    try:
        async with connect_first(hosts, timeout=_CONNECT_SECONDS) as shell:
            found = await read_object(shell, "deployment", AUTOSCALER, namespace="kube-system", what=what)
            all_goes = is_wanted(found, group)
            if all_goes:
                await shell.run(_STOP, what=what, timeout=_AT_ONCE)
            await _await_end(shell, group, what)
            leaving = servers_of(cloud, group, network_id) if seconds and not all_goes else []
            for server in leaving:
                await empty(shell, server["name"], seconds, traffic_to(server["id"], cloud), print)
    except (CloudError, NodeGroupError):
        raise
    except InfraError as error:
        raise NodeGroupError(group, str(error)) from error


async def _await_end(shell: Shell, group: str, what: str) -> None:
    """Waits until no Pod of the cluster-autoscaler creates servers of the group."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _ENDING_SECONDS
    while True:
        pods = json.loads(await shell.run(_PODS, what=what, timeout=_AT_ONCE))["items"]
        at_work = [pod["metadata"]["name"] for pod in pods if scales(pod["spec"], group)]
        if not at_work:
            return
        if loop.time() > deadline:
            why = f"these cluster-autoscaler Pods did not terminate within {_ENDING_SECONDS:.0f} s"
            raise NodeGroupError(group, f"{why}, and can still create servers: {', '.join(at_work)}")
        await asyncio.sleep(_PAUSE)
