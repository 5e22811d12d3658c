"""The labels of load balancers and certificates, and their meaning.

We label all objects that we create. We never change or delete objects without these labels, unless an
annotation adopts them. If the official CCM labeled a load balancer with a Service's UID, it belongs to that
Service. Labels also store the owners of listeners on a shared load balancer, and the annotated settings.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ccm.cloud import Orphan, ServiceView
from ccm.hetzner.api.models import Certificate, LoadBalancer
from ccm.hetzner.settings.tenants import CLUSTER, NAMESPACE, SERVICE_UID

OURS = "ccm-from-scratch/"
SERVICE = OURS + "service"
SHARE = OURS + "share"
FORMER_UID = OURS + "former-service-uid"  # the former owner of a protected load balancer
ADOPTED = OURS + "adopted"
BY_LABEL = "by-label"  # value of ADOPTED if the namespace label permitted the adoption; that label stays
ANNOTATED = OURS + "annotated"  # names of annotated settings of the load balancer
FIELD = ANNOTATED + "-"  # prefix of a label for each annotated field of ports
LABEL = OURS + "label-"
PORT = OURS + "port-"
NO_PORT = PORT + "0"  # the owner's label if it has no listener of its own
_PORT_LABEL = re.compile(re.escape(PORT) + r"(\d{1,5})")
DEFAULT_TYPE = "lb11"
STAGING = "HC-Use-Staging-CA"


def ports_by_label(balancer: LoadBalancer) -> dict[int, str]:
    """The UID of the owning Service by listener port, from the labels."""
    found: dict[int, str] = {}
    for key, value in balancer.labels.items():
        match = _PORT_LABEL.fullmatch(key)
        if match:
            found[int(match[1])] = value
    return found


def is_own_port(key: str, value: str, own: frozenset[str]) -> bool:
    """Whether a label assigns a port to one of these Services (UIDs)."""
    return value in own and _PORT_LABEL.fullmatch(key) is not None


def with_annotated_labels(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """A load balancer's labels, with the old labels of the annotation ``labels`` replaced by ``wanted``."""
    former = {key for key in present if _label_mark(key) in present}
    ownership = {_label_mark(key) for key in former}
    kept = {key: value for key, value in present.items() if key not in former | ownership}
    return {**kept, **wanted, **{_label_mark(key): "" for key in wanted}}


def _label_mark(key: str) -> str:
    return LABEL + hashlib.sha256(key.encode()).hexdigest()[:8]


def with_ownership(
    service: ServiceView, balancers: Iterable[LoadBalancer]
) -> list[tuple[LoadBalancer, Ownership]]:
    """Load balancers with their ownership for a Service."""
    return [(balancer, ownership_of(service, balancer)) for balancer in balancers]


def used_by(service: ServiceView, balancers: Iterable[LoadBalancer]) -> list[LoadBalancer]:
    """Load balancers that a Service owns or uses according to their labels."""
    return [balancer for balancer, ownership in with_ownership(service, balancers) if ownership.is_user]


def is_of_other_cluster(balancer: LoadBalancer, cluster: str) -> bool:
    """Whether the load balancer has the ID of another cluster; False if this cluster has no ID."""
    return bool(cluster) and balancer.labels.get(CLUSTER, cluster) not in {"", cluster}


@dataclass(frozen=True, slots=True)
class Ownership:
    """The ownership of a Service's load balancer, from its labels."""

    is_user: bool = False  # whether the Service owns the load balancer or a listener on it
    own: frozenset[str] = frozenset()  # UIDs of the Service in the labels: its own and a former UID
    # by port of a listener, the UID of its Service
    owners: Mapping[int, str] = field(default_factory=dict[int, str])
    settings: frozenset[str] = frozenset()  # names of settings that were set because of an annotation
    # names of fields of listeners that were set because of an annotation
    fields: frozenset[str] = frozenset()
    # whether we created it or wrote its labels; False = it has only the official CCM's labels
    ours: bool = True
    # whether it has the label for sharing, which the official CCM doesn't support
    shared: bool = False
    others: bool = False  # whether other Services may have listeners on it

    def with_annotated(self, settings: frozenset[str], fields: frozenset[str]) -> Ownership:
        """Add settings and fields that were annotated, but aren't in the labels."""
        return replace(self, settings=self.settings | settings, fields=self.fields | fields)


def ownership_of(service: ServiceView, balancer: LoadBalancer | None) -> Ownership:
    """Parse the labels of a Service's load balancer. None = it will be created, and is ours."""
    if balancer is None:
        return Ownership()
    labels, owners = balancer.labels, ports_by_label(balancer)
    return Ownership(
        is_user=service.uid in {labels.get(SERVICE_UID), *owners.values()},
        own=own_uids(service, balancer),
        owners=owners,
        settings=frozenset(labels.get(ANNOTATED, "").split("-")) - {""},
        fields=frozenset(key[len(FIELD) :].replace("-", "_") for key in labels if key.startswith(FIELD)),
        ours=NAMESPACE in labels,
        shared=SHARE in labels,
        others=SHARE in labels or bool({*owners.values()} - {service.uid}),
    )


def own_uids(service: ServiceView, balancer: LoadBalancer) -> frozenset[str]:
    """The Service's UID, and the UID of a former Service with its name that owns the load balancer.

    Two Services of a cluster never have the same name at the same time. So the former Service was deleted
    without a cleanup, for example when a cluster was restored from a backup.
    """
    labels = balancer.labels
    same_name = (labels.get(NAMESPACE), labels.get(SERVICE)) == (service.namespace, service.name)
    former = labels.get(SERVICE_UID, "") if same_name and labels.get(CLUSTER) else ""
    return frozenset({service.uid, former} - {""})


def is_certificate_of(certificate: Certificate, service: ServiceView) -> bool:
    """Whether a certificate is managed and has the UID of a Service, maybe from the official CCM."""
    return certificate.type == "managed" and certificate.labels.get(SERVICE_UID) == service.uid


def may_delete(certificate: Certificate, service: ServiceView, cluster: str) -> bool:
    """Whether we requested a certificate for this Service of this cluster, so that we may delete it."""
    labels = certificate.labels
    labeled = NAMESPACE in labels or CLUSTER in labels  # NAMESPACE since 0.1.0, CLUSTER before
    elsewhere = cluster and labels.get(CLUSTER, cluster) != cluster
    return is_certificate_of(certificate, service) and labeled and not elsewhere


UNCERTAIN = ", whose cluster is unknown because CCM_CLUSTER_ID is not set,"


def orphans_among(
    balancers: Iterable[LoadBalancer],
    certificates: Iterable[Certificate],
    services: Collection[str],
    cluster: str,
) -> Iterator[Orphan]:
    """Find orphans by our labels; ``services`` are UIDs of existing Services, ``cluster`` may be empty."""
    for balancer in balancers:
        labels = balancer.labels
        if NAMESPACE not in labels or labels.get(CLUSTER, "") != cluster:
            continue
        what = f"load balancer {balancer.name} ({balancer.id}){'' if cluster else UNCERTAIN}"
        owner_uid = labels.get(SERVICE_UID)
        last_uid = owner_uid or labels.get(FORMER_UID)
        if last_uid and owner_uid not in services:
            yield Orphan(labels[NAMESPACE], labels.get(SERVICE, ""), last_uid, what)
        for port, uid in sorted(ports_by_label(balancer).items()):
            if uid not in services and uid != owner_uid:
                yield Orphan(labels[NAMESPACE], "", uid, f"port {port} of {what}")
    for certificate in certificates:
        labels = certificate.labels
        uid = labels.get(SERVICE_UID)
        ours = NAMESPACE in labels or cluster != ""
        if uid and uid not in services and ours and labels.get(CLUSTER, "") == cluster:
            what = f"certificate {certificate.name} ({certificate.id}){'' if cluster else UNCERTAIN}"
            yield Orphan(labels.get(NAMESPACE, ""), labels.get(SERVICE, ""), uid, what)
