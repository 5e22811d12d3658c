"""The labels of load balancers and certificates, and what they say.

Everything that we make carries labels. What lacks them is never changed or deleted, unless an annotation
adopts it. A load balancer that the official CCM labeled with a Service's UID is that Service's. Labels also
say which listener is whose, where a load balancer is shared, and which settings were annotated.
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
FORMER_UID = OURS + "former-service-uid"  # it was made for this Service, and stays since it is protected
ADOPTED = OURS + "adopted"
BY_LABEL = "by-label"  # adopted because it was labeled for the namespace: we keep that label
ANNOTATED = OURS + "annotated"  # which settings of the load balancer were annotated
FIELD = ANNOTATED + "-"  # and which fields of ports, a label each
LABEL = OURS + "label-"
PORT = OURS + "port-"
NO_PORT = PORT + "0"  # the owner's, where every listener belongs to another Service
_PORT_LABEL = re.compile(re.escape(PORT) + r"(\d{1,5})")
DEFAULT_TYPE = "lb11"
STAGING = "HC-Use-Staging-CA"


def ports_by_label(balancer: LoadBalancer) -> dict[int, str]:
    """Which Service (UID) has which listener, where labels say so."""
    found: dict[int, str] = {}
    for key, value in balancer.labels.items():
        match = _PORT_LABEL.fullmatch(key)
        if match:
            found[int(match[1])] = value
    return found


def is_own_port(key: str, value: str, own: frozenset[str]) -> bool:
    """Whether a label gives a port to one of these Services (UIDs)."""
    return value in own and _PORT_LABEL.fullmatch(key) is not None


def with_annotated_labels(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """A load balancer's labels with those of the annotation ``labels``; former ones of it go."""
    former = {key for key in present if _label_mark(key) in present}
    ownership = {_label_mark(key) for key in former}
    kept = {key: value for key, value in present.items() if key not in former | ownership}
    return {**kept, **wanted, **{_label_mark(key): "" for key in wanted}}


def _label_mark(key: str) -> str:
    return LABEL + hashlib.sha256(key.encode()).hexdigest()[:8]


def with_ownership(
    service: ServiceView, balancers: Iterable[LoadBalancer]
) -> list[tuple[LoadBalancer, Ownership]]:
    """Load balancers, and what their labels say for a Service."""
    return [(balancer, ownership_of(service, balancer)) for balancer in balancers]


def used_by(service: ServiceView, balancers: Iterable[LoadBalancer]) -> list[LoadBalancer]:
    """Load balancers on which a Service has anything, whatever its annotations say by now."""
    return [balancer for balancer, ownership in with_ownership(service, balancers) if ownership.is_user]


def is_of_other_cluster(balancer: LoadBalancer, cluster: str) -> bool:
    """Whether it says that it belongs to another cluster than this one, which has an id too."""
    return bool(cluster) and balancer.labels.get(CLUSTER, cluster) not in {"", cluster}


@dataclass(frozen=True, slots=True)
class Ownership:
    """Read from the labels of a Service's load balancer."""

    is_user: bool = False  # whether the Service has a listener there, or owns it
    own: frozenset[str] = frozenset()  # UIDs of the Service there: its own and a former one
    # by port of a listener, the UID of its Service
    owners: Mapping[int, str] = field(default_factory=dict[int, str])
    settings: frozenset[str] = frozenset()  # names of settings that were set because of an annotation
    # names of fields of listeners that were set because of an annotation
    fields: frozenset[str] = frozenset()
    # whether we created it or wrote its labels; False = it is as the official CCM left it
    ours: bool = True
    # whether several Services may share it, which the official CCM does not support
    shared: bool = False
    others: bool = False  # whether others may have listeners there

    def with_annotated(self, settings: frozenset[str], fields: frozenset[str]) -> Ownership:
        """The same, with settings and fields that were annotated although no label says so."""
        return replace(self, settings=self.settings | settings, fields=self.fields | fields)


def ownership_of(service: ServiceView, balancer: LoadBalancer | None) -> Ownership:
    """Read the labels of a Service's load balancer; one that is yet to be made has none, and is ours."""
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
    """The Service's UID, and that of the one which had its name before, if that is the owner here.

    Two Services of a cluster never have the same name at the same time: the former is gone, and was not
    cleaned up after, as when a cluster is restored from a backup.
    """
    labels = balancer.labels
    same_name = (labels.get(NAMESPACE), labels.get(SERVICE)) == (service.namespace, service.name)
    former = labels.get(SERVICE_UID, "") if same_name and labels.get(CLUSTER) else ""
    return frozenset({service.uid, former} - {""})


def is_certificate_of(certificate: Certificate, service: ServiceView) -> bool:
    """Whether it is managed, and a Service's; the official CCM labels its own so too."""
    return certificate.type == "managed" and certificate.labels.get(SERVICE_UID) == service.uid


def may_delete(certificate: Certificate, service: ServiceView, cluster: str) -> bool:
    """Whether we requested it, for this Service of this cluster: then it is ours to delete."""
    labels = certificate.labels
    labeled = NAMESPACE in labels or CLUSTER in labels  # the former since 0.1.0, the latter before
    elsewhere = cluster and labels.get(CLUSTER, cluster) != cluster
    return is_certificate_of(certificate, service) and labeled and not elsewhere


UNCERTAIN = ", which may belong to another cluster because CCM_CLUSTER_ID is not set,"


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
        owner_uid, former = labels.get(SERVICE_UID, ""), labels.get(FORMER_UID, "")
        if owner_uid not in services and (owner_uid or former):
            yield Orphan(labels[NAMESPACE], labels.get(SERVICE, ""), owner_uid or former, what)
        for port, uid in sorted(ports_by_label(balancer).items()):
            if uid not in services and uid != owner_uid:
                yield Orphan(labels[NAMESPACE], "", uid, f"port {port} of {what}")
    for certificate in certificates:
        labels = certificate.labels
        uid = labels.get(SERVICE_UID, "")
        ours = NAMESPACE in labels or cluster != ""
        if uid and uid not in services and ours and labels.get(CLUSTER, "") == cluster:
            what = f"certificate {certificate.name} ({certificate.id}){'' if cluster else UNCERTAIN}"
            yield Orphan(labels.get(NAMESPACE, ""), labels.get(SERVICE, ""), uid, what)
