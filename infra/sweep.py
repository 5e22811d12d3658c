"""Removes, when the environment is destroyed, the load balancers that the cloud-controller-manager made.

Pulumi doesn't know them, they cost money, and they keep the network alive. This resource is deleted before
anything else, while the cloud-controller-manager still runs; what is left is deleted through the cloud's API.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi
from pulumi.dynamic import ConfigureRequest, CreateResult, Resource

from infra.catalogue import call, everything, fetcher
from infra.dynamic import Provider
from infra.errors import CloudError, InfraError, SweepError
from infra.preflight import Cloud, cloud_of
from infra.remote import Host, Shell, connect
from infra.server import Server, host_of

CONNECT_SECONDS = 10.0
FINALIZER_SECONDS = 60.0
SERVICE_UID_LABEL = "hcloud-ccm/service-uid"
CLUSTER_LABEL = "ccm-from-scratch/cluster"
_POLL_SECONDS = 0.5
_LIST = "k3s kubectl get services --all-namespaces -o json"
_RUNNING = (
    "k3s kubectl -n kube-system get deployment ccm-from-scratch "
    "--ignore-not-found -o 'jsonpath={.status.availableReplicas}'"
)

Report = Callable[[str], None]


class SweepProvider(Provider):
    """Does nothing until it is deleted."""

    replaced_by = ("server_id", "generation")
    _configuration: Mapping[str, Any]

    def configure(self, req: ConfigureRequest) -> None:
        """Keeps where the token is; the state must not hold it."""
        super().configure(req)
        names = ("hcloud:token", "hcloud:endpoint")
        self._configuration = {name: req.config.get(name) for name in names}

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Notes how to reach the cluster."""
        return CreateResult(f"sweep-{props['network_id']}", dict(props))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Deletes Services first, then what is still in the cloud."""
        cloud = cloud_of(self._configuration, os.environ)
        uids = []
        if "address" in _props and server_runs(cloud, _props["server_id"]):
            uids = asyncio.run(sweep_services(host_of(_props), print))
        sweep_cloud(cloud, Ownership(_props["cluster"], int(_props["network_id"]), frozenset(uids)), print)


class Sweep(Resource, module="ccm-from-scratch", name="Sweep"):
    """Everything that the cloud-controller-manager made in the cloud, as one thing to delete."""

    def __init__(
        self,
        name: str,
        cluster: str,
        network_id: pulumi.Input[str],
        *,
        control: Server | None = None,
        generation: pulumi.Input[str] = "",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declares it.

        Args:
            name: of the resource.
            cluster: its name, which is a label of what it makes.
            network_id: the private network.
            control: where the cluster can be asked over SSH; without it only the cloud is looked at.
            generation: changes when the cluster is another one; the old one's load balancers go then.
            opts: as for every resource.
        """
        access = control.access.inputs() if control else {"server_id": cluster}
        props = {**access, "cluster": cluster, "network_id": network_id, "generation": generation}
        super().__init__(SweepProvider(), name, props, opts)


class Ownership:
    """Decides whether a load balancer is this cluster's."""

    def __init__(self, cluster: str, network_id: int, service_uids: frozenset[str]) -> None:
        self._cluster = cluster
        self._network_id = network_id
        self._service_uids = service_uids

    def owns(self, load_balancer: Mapping[str, Any]) -> bool:
        """Made by a cloud-controller-manager, and for us: our label, our Service, or our network."""
        labels = load_balancer["labels"]
        uid = labels.get(SERVICE_UID_LABEL)
        if uid is None:
            return False
        attached = any(private["network"] == self._network_id for private in load_balancer["private_net"])
        return labels.get(CLUSTER_LABEL) == self._cluster or uid in self._service_uids or attached


async def sweep_services(host: Host, report: Report) -> list[str]:
    """Deletes the Services of type LoadBalancer and waits until their load balancers are gone.

    Returns:
        The UIDs of all that were there; empty when the cluster doesn't answer.
    """
    try:
        async with connect(host, timeout=CONNECT_SECONDS) as shell:
            return await delete_services(shell, report)
    except InfraError as error:
        report(f"the cluster could not be asked to remove its load balancers itself: {error}")
        return []


def server_runs(cloud: Cloud, server_id: str) -> bool:
    """Whether it is worth trying to reach a server."""
    try:
        answer = call(cloud.endpoint, cloud.token, "GET", f"/servers/{server_id}")
    except CloudError as error:
        if error.status == 404:
            return False
        raise
    return answer["server"]["status"] == "running"


def sweep_cloud(cloud: Cloud, ownership: Ownership, report: Report) -> None:
    """Deletes the load balancers that are left and ours.

    Raises:
        SweepError: one could not be deleted; names all of them.
    """
    failed = []
    for load_balancer in _load_balancers(cloud):
        if not ownership.owns(load_balancer):
            continue
        name = f"load balancer {load_balancer['name']} ({load_balancer['id']})"
        try:
            call(cloud.endpoint, cloud.token, "DELETE", f"/load_balancers/{load_balancer['id']}")
            report(f"deleted the {name}, which the cluster had left behind")
        except CloudError as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise SweepError("load balancers are left and cost money:\n" + "\n".join(failed))


def load_balancer_services(listing: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of a list of Services, the metadata of those that have or had a load balancer."""
    finalizer = "service.kubernetes.io/load-balancer-cleanup"
    return [
        item["metadata"]
        for item in listing["items"]
        if item["spec"].get("type") == "LoadBalancer" or finalizer in item["metadata"].get("finalizers", [])
    ]


def deletion_script(services: Sequence[Mapping[str, Any]]) -> str:
    """Deletes Services without waiting. Names are DNS labels: nothing needs quoting."""
    delete = "k3s kubectl delete service --wait=false --ignore-not-found"
    lines = [f"{delete} --namespace={item['namespace']} {item['name']}" for item in services]
    return "\n".join(["set -e", *lines])


async def delete_services(shell: Shell, report: Report) -> list[str]:
    """Deletes the Services that have load balancers and waits for the CCM; returns their UIDs."""
    found = await _services(shell)
    if not found:
        return []
    report(f"deleting {len(found)} Services of type LoadBalancer")
    await shell.run(deletion_script(found), what="deleting Services", timeout=FINALIZER_SECONDS)
    running = (await shell.run(_RUNNING, what="looking for the CCM", timeout=30)).strip()
    patience = FINALIZER_SECONDS if running else 0
    deadline = asyncio.get_running_loop().time() + patience
    while left := await _services(shell):
        if asyncio.get_running_loop().time() > deadline:
            names = ", ".join(f"{item['namespace']}/{item['name']}" for item in left)
            why = f"not let go of them within {patience:.0f} s" if running else "not been running"
            report(f"the cloud-controller-manager has {why}: {names}")
            break
        await asyncio.sleep(_POLL_SECONDS)
    return [item["uid"] for item in found]


async def _services(shell: Shell) -> list[Mapping[str, Any]]:
    return load_balancer_services(json.loads(await shell.run(_LIST, what="listing Services", timeout=30)))


def _load_balancers(cloud: Cloud) -> list[Mapping[str, Any]]:
    try:
        return everything(fetcher(cloud.endpoint, cloud.token), "load_balancers", "")
    except CloudError as error:
        # an emulated cloud without load balancers has none to delete
        if error.status == 404:
            return []
        raise
