"""Removes the load balancers that the cloud-controller-manager created, when the environment is destroyed.

They are not in Pulumi's state, they cost money, and the network can't be deleted while they use it. Pulumi
deletes this resource before all others, while the cloud-controller-manager still runs. It then deletes the
remaining load balancers through the cloud's API, with the certificates that were requested for them. A load
balancer that the cluster adopted, or shares with others, is released and never deleted; lib/ownership.py
decides.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi

from ..cluster.peers import control_hosts, labels_of
from ..config.settings import Settings
from ..lib.cloud_api import Cloud, Patience, change, everything, fetcher
from ..lib.dynamic import CloudProvider, ProviderResource
from ..lib.errors import CloudError, InfraError
from ..lib.ownership import Fate, Ownership, Verdict
from ..lib.ssh import Host, Shell, connect_first
from ..servers.servers import Servers

CONNECT_SECONDS = 10.0
FINALIZER_SECONDS = 60.0
_POLL_SECONDS = 0.5
_LIST = "k3s kubectl get services --all-namespaces -o json"
_RUNNING = (
    "k3s kubectl -n kube-system get deployment ccm-from-scratch "
    "--ignore-not-found -o 'jsonpath={.status.availableReplicas}'"
)

Report = Callable[[str], None]


class LoadBalancerCleanupProvider(CloudProvider):
    """Does nothing until it is deleted."""

    id_format = "sweep-{network_id}"
    replaced_by = ("cluster", "generation")

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Deletes Services first, then what is still in the cloud."""
        cloud = self.cloud()
        before = load_balancers(cloud)
        uids = []
        if "address" in _props and (hosts := control_hosts(cloud, _props)):
            uids = asyncio.run(delete_services_by_cluster(hosts, print))
        stays = bool(_props.get("network_stays"))
        ownership = Ownership(_props["cluster"], int(_props["network_id"]), frozenset(uids), stays)
        after = clean_up_load_balancers(cloud, ownership, print)
        clean_up_certificates(cloud, ownership, after, print)
        for line in released_meanwhile(ownership, before, after):
            print(line)


class LoadBalancerCleanup(ProviderResource, provider=LoadBalancerCleanupProvider, type_name="Sweep"):
    """All objects in the cloud that the cloud-controller-manager created, as one resource to delete."""


def cleanup_inputs(
    settings: Settings, network_id: pulumi.Input[str], servers: Servers | None = None
) -> dict[str, Any]:
    """Inputs of a ``LoadBalancerCleanup`` except ``generation``: if that changes, the previous cluster's are
    removed. Without servers, only the cloud is asked.
    """
    cluster = settings.cluster_name
    access: dict[str, Any] = {"server_id": cluster, "generation": ""}
    if servers:
        access = {**servers.control_inputs(), "labels": labels_of(servers.labels)}
    stays = bool(settings.import_network) or None
    return {**access, "cluster": cluster, "network_id": network_id, "network_stays": stays}


async def delete_services_by_cluster(hosts: Sequence[Host], report: Report) -> list[str]:
    """Deletes the Services of type LoadBalancer and waits until their load balancers are gone. Returns the
    UIDs of all of them; none if the cluster doesn't answer.
    """
    try:
        async with connect_first(hosts, timeout=CONNECT_SECONDS) as shell:
            return await delete_services(shell, report)
    except InfraError as error:
        report(f"the cluster does not respond, so Pulumi itself deletes the load balancers: {error}")
        return []


def load_balancers(cloud: Cloud) -> list[Mapping[str, Any]]:
    """All load balancers of the project, as the API returns them."""
    return everything(fetcher(cloud), "load_balancers", "")


def clean_up_load_balancers(
    cloud: Cloud, ownership: Ownership, report: Report, patience: Patience | None = None
) -> list[Mapping[str, Any]]:
    """Deletes or releases the cluster's remaining load balancers. Returns all load balancers before that. The
    error names all that could not be deleted, or about which a person must decide.
    """
    found, failed = load_balancers(cloud), []
    for balancer in found:
        verdict = ownership.verdict(balancer)
        if verdict.fate is Fate.ASK:
            failed.append(_remedy(balancer, verdict, verdict.reason))
            continue
        try:
            _carry_out(cloud, balancer, verdict, report, patience)
        except CloudError as error:
            failed.append(_remedy(balancer, verdict, str(error), error.code))
    if failed:
        lines = "\n".join(failed)
        raise InfraError(f"some load balancers could not be deleted, and still cost money:\n{lines}")
    return found


def clean_up_certificates(
    cloud: Cloud,
    ownership: Ownership,
    balancers: Sequence[Mapping[str, Any]],
    report: Report,
    patience: Patience | None = None,
) -> None:
    """Deletes the certificates that were requested for the cluster's Services. A failure does not stop a
    destroy. If the cluster did not answer, the ownership labels of ``balancers`` name its Services.
    """
    services = ownership.service_uids.union(*(ownership.verdict(item).services for item in balancers))
    try:
        found = everything(fetcher(cloud, patience=patience), "certificates", "") if services else []
    except CloudError as error:
        report(f"could not list the certificates of the cluster: {error}")
        return
    for certificate in found:
        if not ownership.certificate_goes(certificate, services):
            continue
        name = f"certificate {certificate['name']} ({certificate['id']})"
        try:
            change(cloud, "DELETE", f"/certificates/{certificate['id']}")
            report(f"deleted the {name}, because the cloud-controller-manager had not deleted it")
        except CloudError as error:
            report(f"could not delete the {name}: {error}")


def _carry_out(
    cloud: Cloud, balancer: Mapping[str, Any], verdict: Verdict, report: Report, patience: Patience | None
) -> None:
    path = f"/load_balancers/{balancer['id']}"
    if verdict.fate is Fate.RELEASE:
        change(cloud, "PUT", path, {"labels": dict(verdict.labels)}, patience=patience)
        report(f"kept the {_named(balancer)} and removed the labels of this cluster: {verdict.reason}")
    if verdict.fate is Fate.DELETE:
        try:
            change(cloud, "DELETE", path, patience=patience)
        except CloudError as error:
            if error.status != 404:
                raise
        report(f"deleted the {_named(balancer)}, because the cloud-controller-manager had not deleted it")


def released_meanwhile(
    ownership: Ownership, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Messages about load balancers that the cloud-controller-manager released during the destroy."""
    free = {item["id"] for item in after if ownership.verdict(item).fate is Fate.LEAVE}
    verdicts = [(item, ownership.verdict(item)) for item in before if item["id"] in free]
    return [
        # without another reason it stays because it is protected
        f"{_named(item)} stays: {verdict.reason or 'it is protected against deletion'}"
        for item, verdict in verdicts
        if verdict.fate is not Fate.LEAVE
    ]


def _named(balancer: Mapping[str, Any]) -> str:
    return f"load balancer {balancer['name']} ({balancer['id']})"


def _remedy(balancer: Mapping[str, Any], verdict: Verdict, reason: str, code: str = "") -> str:
    """Why it is left, and the commands that delete or keep it."""
    cli, identity = "hcloud load-balancer", balancer["id"]
    delete = f"disable-protection {identity} delete" if code == "protected" else f"delete {identity}"
    return (
        f"{_named(balancer)}: {reason}. To delete this load balancer: {cli} {delete}. "
        f"To keep this load balancer: {cli} {verdict.keep}. Then repeat the command"
    )


def load_balancer_services(listing: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The metadata of those Services in a list that have or had a load balancer."""
    finalizer = "service.kubernetes.io/load-balancer-cleanup"
    return [
        item["metadata"]
        for item in listing["items"]
        if item["spec"].get("type") == "LoadBalancer" or finalizer in item["metadata"].get("finalizers", [])
    ]


def deletion_script(services: Sequence[Mapping[str, Any]]) -> str:
    """Deletes Services without waiting. Names are DNS labels, so they need no quoting."""
    delete = "k3s kubectl delete service --wait=false --ignore-not-found"
    lines = [f"{delete} --namespace={item['namespace']} {item['name']}" for item in services]
    return "\n".join(["set -e", *lines])


async def delete_services(shell: Shell, report: Report) -> list[str]:
    """Deletes the Services that have load balancers and waits for the CCM; returns their UIDs."""
    found = await _services(shell)
    if not found:
        return []
    report(f"deleting {len(found)} Service{'s' * (len(found) != 1)} of type LoadBalancer")
    await shell.run(deletion_script(found), what="deleting Services", timeout=FINALIZER_SECONDS)
    running = (await shell.run(_RUNNING, what="looking for the CCM", timeout=30)).strip()
    patience = FINALIZER_SECONDS if running else 0
    deadline = asyncio.get_running_loop().time() + patience
    while left := await _services(shell):
        if asyncio.get_running_loop().time() > deadline:
            names = ", ".join(f"{item['namespace']}/{item['name']}" for item in left)
            why = (
                f"did not remove the finalizers of these Services within {patience:.0f} s"
                if running
                else "is not running, so these Services keep their finalizers"
            )
            report(f"the cloud-controller-manager {why}: {names}")
            break
        await asyncio.sleep(_POLL_SECONDS)
    return [item["uid"] for item in found]


async def _services(shell: Shell) -> list[Mapping[str, Any]]:
    return load_balancer_services(json.loads(await shell.run(_LIST, what="listing Services", timeout=30)))
