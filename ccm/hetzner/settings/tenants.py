"""Decides which namespaces may use resources of other owners.

A user with write access to Services isn't always the cluster's operator. So a Service may use resources that
were created for Services of its namespace, or that have the namespace in the label
``ccm-from-scratch/namespace``. Other resources require a permission by the operator.
"""

from collections.abc import Mapping
from dataclasses import dataclass

EVERY = "*"
NOBODY = "-"
NAMESPACE = "ccm-from-scratch/namespace"
CLUSTER = "ccm-from-scratch/cluster"
SERVICE_UID = "hcloud-ccm/service-uid"


@dataclass(frozen=True, slots=True)
class Tenants:
    """The permissions by the operator: names of namespaces, or :data:`EVERY`."""

    # whose Services may adopt load balancers without an owner (`CCM_ADOPT_NAMESPACES`)
    adopt: frozenset[str] = frozenset()
    # whose Services may share load balancers with each other (`CCM_SHARE_NAMESPACES`)
    share: frozenset[str] = frozenset()
    # whose Services may use certificates of other owners (`CCM_CERTIFICATE_NAMESPACES`)
    certificates: frozenset[str] = frozenset()
    # whose Services may use certificates without owner labels
    # (`CCM_UNLABELLED_CERTIFICATE_NAMESPACES`)
    unlabelled: frozenset[str] = frozenset({EVERY})
    # whose Services may use Primary IPs without owner labels
    # (`CCM_UNLABELLED_PRIMARY_IP_NAMESPACES`)
    unlabelled_ips: frozenset[str] = frozenset({EVERY})
    # whose Services may protect a load balancer against deletion (`CCM_PROTECTION_NAMESPACES`)
    protection: frozenset[str] = frozenset({EVERY})
    # whose Services may choose a private address (`CCM_PRIVATE_IPV4_NAMESPACES`)
    private_ipv4: frozenset[str] = frozenset({EVERY})

    def may_adopt(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether Services of a namespace may adopt a load balancer with these labels."""
        return labels.get(NAMESPACE) == namespace or among(self.adopt, namespace)

    def may_share(self, namespace: str, other: str) -> bool:
        """Whether Services of two namespaces may share a load balancer."""
        return namespace == other or (among(self.share, namespace) and among(self.share, other))

    def may_use(self, namespace: str, uid: str, cluster: str, labels: Mapping[str, str]) -> bool:
        """Whether a Service with ``namespace`` and ``uid`` may use a certificate with ``labels``.

        As in the official CCM, all Services may use a certificate without owner labels, unless the operator
        restricts this. ``cluster`` may be empty.
        """
        owner, owning = labels.get(NAMESPACE, ""), labels.get(CLUSTER, "")
        elsewhere = bool(owning) and owning != cluster
        if owner and not elsewhere:
            mine = owner == namespace
        else:
            known = SERVICE_UID in labels or among(self.unlabelled, namespace)
            mine = labels.get(SERVICE_UID, uid) == uid and not elsewhere and known
        return mine or among(self.certificates, namespace)

    def may_use_ip(self, namespace: str, cluster: str, labels: Mapping[str, str]) -> bool:
        """Whether Services of a namespace may use a Primary IP with ``labels``; ``cluster`` may be empty."""
        if labels.get(CLUSTER, cluster) != cluster:
            return False
        owner = labels.get(NAMESPACE, "")
        return owner == namespace if owner else among(self.unlabelled_ips, namespace)


def among(namespaces: frozenset[str], namespace: str) -> bool:
    """Whether the set contains a namespace or :data:`EVERY`."""
    return EVERY in namespaces or namespace in namespaces
