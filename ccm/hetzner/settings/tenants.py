"""Which namespaces may use what is not theirs. Pure.

Who may write a Service need not be who runs the cluster. So a Service gets what was made for Services of its
namespace, and what carries the label ``ccm-from-scratch/namespace`` with the namespace's name; anything else
only where the operator allows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EVERY = "*"
NAMESPACE = "ccm-from-scratch/namespace"
CLUSTER = "ccm-from-scratch/cluster"
SERVICE_UID = "hcloud-ccm/service-uid"


@dataclass(frozen=True, slots=True)
class Tenants:
    """What the operator allows: names of namespaces, or :data:`EVERY`.

    Attributes:
        adopt: Whose Services may adopt load balancers that are nobody's (``CCM_ADOPT_NAMESPACES``).
        share: Whose Services may share load balancers with each other (``CCM_SHARE_NAMESPACES``).
        certificates: Whose Services may use certificates of other owners (``CCM_CERTIFICATE_NAMESPACES``).
    """

    adopt: frozenset[str] = frozenset()
    share: frozenset[str] = frozenset()
    certificates: frozenset[str] = frozenset()

    def may_adopt(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether Services of a namespace may adopt a load balancer with these labels."""
        return labels.get(NAMESPACE) == namespace or _among(self.adopt, namespace)

    def may_share(self, namespace: str, other: str) -> bool:
        """Whether Services of two namespaces may be on one load balancer."""
        return namespace == other or (_among(self.share, namespace) and _among(self.share, other))

    def may_use(self, namespace: str, uid: str, cluster: str, labels: Mapping[str, str]) -> bool:
        """Whether a Service may use a certificate.

        One without any owner's label is for all, as everybody knows it from the official CCM.

        Args:
            namespace: The Service's.
            uid: The Service's.
            cluster: This cluster's id; may be empty.
            labels: The certificate's.
        """
        owner, owning = labels.get(NAMESPACE, ""), labels.get(CLUSTER, "")
        elsewhere = bool(owning) and owning != cluster
        if owner and not elsewhere:
            mine = owner == namespace
        else:
            mine = labels.get(SERVICE_UID, uid) == uid and not elsewhere
        return mine or _among(self.certificates, namespace)


def _among(namespaces: frozenset[str], namespace: str) -> bool:
    return EVERY in namespaces or namespace in namespaces
