"""Servers of an autoscaled pool: the cluster-autoscaler makes them, so Pulumi doesn't know them.

This is deleted when the pool is: then its servers go, drained, as those of any other pool. When the whole
environment is destroyed, nobody is drained, and the cluster-autoscaler is stopped first, which would make
servers in place of those that go.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pulumi
from pulumi.dynamic import ConfigureRequest, CreateResult, Resource, UpdateResult

from .api import Cloud, Patience, change, cloud_of, everything, fetcher, server_runs
from .departure import KEY, drain_seconds
from .drain import Traffic, empty, senders_to
from .dynamic import Provider
from .errors import CloudError, InfraError, NodeGroupError
from .inventory import Servers
from .remote import Shell, connect_first
from .server import hosts_of, others_of

LABEL = "hcloud/node-group"
"""Of the servers; by it the cluster-autoscaler knows them again (nodeGroupLabel in its Hetzner provider)."""
AUTOSCALER = "cluster-autoscaler"
"""Name of the Deployment, and the value of its Pods' label ``app``."""

_CONNECT_SECONDS = 30.0
_AT_ONCE = 30.0
_ENDING_SECONDS = 60.0
_GET = f"k3s kubectl -n kube-system get deployment {AUTOSCALER} --ignore-not-found -o json"
_STOP = f"k3s kubectl -n kube-system scale deployment {AUTOSCALER} --replicas=0"
_AWAIT_END = (
    f"k3s kubectl -n kube-system wait --for=delete pod -l app={AUTOSCALER} --timeout={_ENDING_SECONDS:.0f}s"
)


class NodeGroupProvider(Provider):
    """Does nothing until it is deleted."""

    replaced_by = ("generation", "group", "network_id")
    unheeded = ("private_key", "host_key", "address")
    _configuration: Mapping[str, Any] = MappingProxyType({})

    def configure(self, req: ConfigureRequest) -> None:
        """Keeps where the token is; the state must not hold it."""
        super().configure(req)
        names = ("hcloud:token", "hcloud:endpoint", KEY)
        self._configuration = {name: req.config.get(name) for name in names}

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Notes how to reach the cluster."""
        return CreateResult(f"{props['group']}/{props['network_id']}", dict(props))

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Notes it anew."""
        return UpdateResult(dict(_news))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Removes the servers of the group, and waits until they are gone.

        Raises:
            DrainError: Pods are left, and with them the server.
            NodeGroupError: A control server runs, and the cluster could not be asked, or servers are left.
            CloudError: The cloud could not be asked.
            ConfigurationError: There is no token.
        """
        cloud = cloud_of(self._configuration, os.environ)
        controls = [_props["server_id"], *(at["server_id"] for at in others_of(_props).values())]
        if any(server_runs(cloud, one) for one in controls):
            seconds = drain_seconds(self._configuration, _props)
            asyncio.run(_prepare(cloud, _props, seconds))
        remove_servers(cloud, _props["group"], int(_props["network_id"]))


class NodeGroup(Resource, module="ccm-from-scratch", name="NodeGroup"):
    """The servers of an autoscaled pool, as one thing to delete."""

    def __init__(
        self,
        name: str,
        group: str,
        servers: Servers,
        network_id: pulumi.Input[str],
        *,
        generation: pulumi.Input[str],
        drain_seconds: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declares it.

        Args:
            name: Of the resource.
            group: Its name, which is a label of the servers.
            servers: Have the cluster.
            network_id: Private network of the servers; the name alone may be another cluster's, too.
            generation: Of the cluster; the servers go with it.
            drain_seconds: In which the Pods of each have to be gone; 0: they are not waited for.
            opts: Name what the servers need until they are gone.
        """
        props = {
            **servers.control_inputs(),
            "group": group,
            "network_id": network_id,
            "generation": generation,
            "drain_seconds": drain_seconds,
        }
        super().__init__(NodeGroupProvider(), name, props, opts)


def servers_of(cloud: Cloud, group: str, network_id: int) -> list[Mapping[str, Any]]:
    """The servers of a group, as the cloud's API gives them; those in other networks are somebody else's.

    Args:
        cloud: Where they are.
        group: Its name.
        network_id: Private network of the cluster.
    """
    found = everything(fetcher(cloud), "servers", f"&label_selector={LABEL}%3D%3D{group}")
    return [server for server in found if network_id in {at["network"] for at in server["private_net"]}]


def remove_servers(cloud: Cloud, group: str, network_id: int, patience: Patience | None = None) -> None:
    """Deletes all servers of a group and waits until they are gone.

    Args:
        cloud: Where they are.
        group: Its name.
        network_id: Private network of the cluster.
        patience: With servers that are still there.

    Raises:
        NodeGroupError: Some are left.
        CloudError: The cloud could not be asked.
    """
    patience = patience or Patience()
    deadline = patience.now() + patience.seconds
    while found := servers_of(cloud, group, network_id):
        failed = [why for server in found if (why := _delete(cloud, server["id"], patience))]
        if patience.now() >= deadline:
            names = ", ".join(f"{server['name']} ({server['id']})" for server in found)
            raise NodeGroupError(group, "; ".join([f"servers are left: {names}", *failed]))
        patience.sleep(patience.pause)


def _delete(cloud: Cloud, server_id: int, patience: Patience) -> str:
    """Why a server could not be deleted; empty when it is gone or about to go."""
    try:
        change(cloud, "DELETE", f"/servers/{server_id}", patience=patience)
    except CloudError as error:
        return "" if error.status == 404 else str(error)
    return ""


def scales(deployment: Mapping[str, Any], group: str) -> bool:
    """Whether a cluster-autoscaler is to go on making and removing servers of a group.

    Args:
        deployment: As the API gives it; empty: there is none.
        group: Its name.
    """
    if is_going(deployment):
        return False
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    words = [*container.get("command", []), *container.get("args", [])]
    return any(word.startswith("--nodes=") and word.endswith(f":{group}") for word in words)


def is_going(deployment: Mapping[str, Any]) -> bool:
    """Whether a Deployment is deleted; its Pods may take a moment longer."""
    return not deployment or bool(deployment["metadata"].get("deletionTimestamp"))


async def _prepare(cloud: Cloud, props: Mapping[str, Any], seconds: int) -> None:
    """Stops an autoscaler that would replace the servers; where none would, drains them."""
    group, network_id = props["group"], int(props["network_id"])
    try:
        async with connect_first(hosts_of(props), timeout=_CONNECT_SECONDS) as shell:
            said = await shell.run(_GET, what="looking for the cluster-autoscaler", timeout=_AT_ONCE)
            deployment = json.loads(said) if said.strip() else {}
            all_goes, what = scales(deployment, group), "stopping the cluster-autoscaler"
            if all_goes:
                await shell.run(_STOP, what=what, timeout=_AT_ONCE)
            if all_goes or is_going(deployment):
                await shell.run(_AWAIT_END, what=what, timeout=_AT_ONCE + _ENDING_SECONDS)
            if all_goes:
                return
            for server in servers_of(cloud, group, network_id):
                await _drain(shell, cloud, server, seconds)
    except CloudError:
        raise
    except InfraError as error:
        raise NodeGroupError(group, str(error)) from error


async def _drain(shell: Shell, cloud: Cloud, server: Mapping[str, Any], seconds: int) -> None:
    if not seconds:
        return
    server_id = server["id"]
    traffic = Traffic(lambda: senders_to(server_id, everything(fetcher(cloud), "load_balancers", "")))
    await empty(shell, server["name"], seconds, traffic, print)
