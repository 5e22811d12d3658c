"""What was made for Services of this cluster that do not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ccm.cloud import Orphan
from ccm.hetzner.api.models import Certificate, LoadBalancer
from ccm.hetzner.load_balancers.ownership_labels import (
    CLUSTER,
    FORMER_UID,
    NAMESPACE,
    SERVICE,
    SERVICE_UID,
    ports_by_label,
)

UNCERTAIN = ", which may as well be another cluster's, for CCM_CLUSTER_ID is not set,"


def orphans_among(
    balancers: Iterable[LoadBalancer],
    certificates: Iterable[Certificate],
    services: Collection[str],
    cluster: str,
) -> Iterator[Orphan]:
    """Find them by their labels; what another cluster, or the official CCM, made is not looked at.

    Args:
        balancers: All of the project.
        certificates: Those that are known.
        services: UIDs of the Services that exist.
        cluster: This cluster's id; may be empty.
    """
    for one in balancers:
        labels = one.labels
        if NAMESPACE not in labels or labels.get(CLUSTER, "") != cluster:
            continue
        what = f"load balancer {one.name} ({one.id}){'' if cluster else UNCERTAIN}"
        owner_uid, former = labels.get(SERVICE_UID, ""), labels.get(FORMER_UID, "")
        if owner_uid not in services and (owner_uid or former):
            yield Orphan(labels[NAMESPACE], labels.get(SERVICE, ""), owner_uid or former, what)
        for port, uid in sorted(ports_by_label(one).items()):
            if uid not in services and uid != owner_uid:
                yield Orphan(labels[NAMESPACE], "", uid, f"port {port} of {what}")
    for one in certificates:
        labels = one.labels
        uid = labels.get(SERVICE_UID, "")
        ours = NAMESPACE in labels or cluster != ""
        if uid and uid not in services and ours and labels.get(CLUSTER, "") == cluster:
            what = f"certificate {one.name} ({one.id}){'' if cluster else UNCERTAIN}"
            yield Orphan(labels.get(NAMESPACE, ""), labels.get(SERVICE, ""), uid, what)
