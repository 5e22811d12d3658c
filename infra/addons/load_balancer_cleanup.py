"""Removes, when the environment is destroyed, the load balancers that the cloud-controller-manager made.

Pulumi doesn't know them, they cost money, and they keep the network alive. This resource is deleted before
anything else, while the cloud-controller-manager still runs. What is left then, or where the cluster can't be
asked, is deleted through the cloud's API, with the certificates that were requested for it. What the cluster
only adopted, or shares with others, is released and never deleted; infra/lib/ownership.py decides.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult

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


class SweepProvider(CloudProvider):
    """Does nothing until it is deleted."""

    replaced_by = ("cluster", "generation")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Notes how to reach the cluster."""
        return CreateResult(f"sweep-{props['network_id']}", dict(props))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Deletes Services first, then what is still in the cloud."""
        cloud = self.cloud()
        before = load_balancers(cloud)
        uids = []
        if "address" in _props and (hosts := control_hosts(cloud, _props)):
            uids = asyncio.run(sweep_services(hosts, print))
        stays = bool(_props.get("network_stays"))
        whose = Ownership(_props["cluster"], int(_props["network_id"]), frozenset(uids), stays)
        after = sweep_cloud(cloud, whose, print)
        sweep_certificates(cloud, whose, after, print)
        for line in released_meanwhile(whose, before, after):
            print(line)


class Sweep(ProviderResource, provider=SweepProvider):
    """Everything that the cloud-controller-manager made in the cloud, as one thing to delete."""


def sweep_inputs(
    settings: Settings, network_id: pulumi.Input[str], servers: Servers | None = None
) -> dict[str, Any]:
    """Inputs of a ``Sweep``, besides the ``generation``, with another one of which the former cluster's go.

    Args:
        settings: Name the cluster, and say whether the network was somebody's before.
        network_id: The private network.
        servers: Where the cluster can be asked over SSH; without it only the cloud is looked at.
    """
    cluster = settings.cluster_name
    access: dict[str, Any] = {"server_id": cluster, "generation": ""}
    if servers:
        access = {**servers.control_inputs(), "labels": labels_of(servers.labels)}
    stays = bool(settings.import_network) or None
    return {**access, "cluster": cluster, "network_id": network_id, "network_stays": stays}


async def sweep_services(hosts: Sequence[Host], report: Report) -> list[str]:
    """Deletes the Services of type LoadBalancer and waits until their load balancers are gone.

    Returns:
        The UIDs of all that were there; empty when the cluster doesn't answer.
    """
    try:
        async with connect_first(hosts, timeout=CONNECT_SECONDS) as shell:
            return await delete_services(shell, report)
    except InfraError as error:
        report(f"the cluster could not be asked to remove its load balancers itself: {error}")
        return []


def load_balancers(cloud: Cloud) -> list[Mapping[str, Any]]:
    """All of the project, as the API gives them."""
    return everything(fetcher(cloud), "load_balancers", "")


def sweep_cloud(
    cloud: Cloud, whose: Ownership, report: Report, patience: Patience | None = None
) -> list[Mapping[str, Any]]:
    """Deletes or releases the load balancers that are left and ours.

    Returns:
        The load balancers that were there.

    Raises:
        InfraError: One could not be deleted, or somebody has to say whether it may; names all of them.
    """
    found, failed = load_balancers(cloud), []
    for balancer in found:
        verdict = whose.verdict(balancer)
        if verdict.fate is Fate.ASK:
            failed.append(_remedy(balancer, verdict, verdict.why))
            continue
        try:
            _carry_out(cloud, balancer, verdict, report, patience)
        except CloudError as error:
            failed.append(_remedy(balancer, verdict, str(error), error.code))
    if failed:
        raise InfraError("load balancers are left and cost money:\n" + "\n".join(failed))
    return found


def sweep_certificates(
    cloud: Cloud,
    whose: Ownership,
    balancers: Sequence[Mapping[str, Any]],
    report: Report,
    patience: Patience | None = None,
) -> None:
    """Deletes the certificates that were requested for our Services. They cost nothing: none stops a destroy.

    Args:
        cloud: Where they are.
        whose: Decides.
        balancers: The load balancers that there were, which tell our Services where the cluster did not.
        report: Told what was done.
        patience: With a cloud that is busy for a moment.
    """
    services = whose.service_uids.union(*(whose.verdict(item).services for item in balancers))
    try:
        found = everything(fetcher(cloud, patience=patience), "certificates", "") if services else []
    except CloudError as error:
        report(f"certificates of the cluster may be left: {error}")
        return
    for certificate in found:
        if not whose.certificate_goes(certificate, services):
            continue
        name = f"certificate {certificate['name']} ({certificate['id']})"
        try:
            change(cloud, "DELETE", f"/certificates/{certificate['id']}")
            report(f"deleted the {name}, which the cluster had left behind")
        except CloudError as error:
            report(f"the {name} is left: {error}")


def _carry_out(
    cloud: Cloud, balancer: Mapping[str, Any], verdict: Verdict, report: Report, patience: Patience | None
) -> None:
    path = f"/load_balancers/{balancer['id']}"
    if verdict.fate is Fate.RELEASE:
        change(cloud, "PUT", path, {"labels": dict(verdict.labels)}, patience=patience)
        report(f"{_named(balancer)} stays with its listeners, without our labels: {verdict.why}")
    if verdict.fate is Fate.DELETE:
        try:
            change(cloud, "DELETE", path, patience=patience)
        except CloudError as error:
            if error.status != 404:
                raise
        report(f"deleted the {_named(balancer)}, which the cluster had left behind")


def released_meanwhile(
    whose: Ownership, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Says which load balancers the cloud-controller-manager took its labels from and left."""
    free = {item["id"] for item in after if whose.verdict(item).fate is Fate.LEAVE}
    verdicts = [(item, whose.verdict(item)) for item in before if item["id"] in free]
    return [
        # one that nothing else speaks for stays because it is protected
        f"{_named(item)} stays: {verdict.why or 'it is protected against deletion'}"
        for item, verdict in verdicts
        if verdict.fate is not Fate.LEAVE
    ]


def _named(balancer: Mapping[str, Any]) -> str:
    return f"load balancer {balancer['name']} ({balancer['id']})"


def _remedy(balancer: Mapping[str, Any], verdict: Verdict, why: str, code: str = "") -> str:
    """Why it is left, and what somebody can type who wants it gone, or kept."""
    cli, identity = "hcloud load-balancer", balancer["id"]
    delete = f"disable-protection {identity} delete" if code == "protected" else f"delete {identity}"
    return (
        f"{_named(balancer)}: {why}. To have it deleted: {cli} {delete}. "
        f"To keep it: {cli} {verdict.keep}. Then destroy again"
    )


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
    report(f"deleting {len(found)} Service{'s' * (len(found) != 1)} of type LoadBalancer")
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
