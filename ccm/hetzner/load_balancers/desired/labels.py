"""The labels that a load balancer should have. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import (
    ADOPTED,
    ANNOTATED,
    BY_LABEL,
    CLUSTER,
    FIELD,
    LABEL,
    NAMESPACE,
    NO_PORT,
    PORT,
    SERVICE,
    SERVICE_UID,
    SHARE,
    is_own_port,
)
from ccm.hetzner.load_balancers.wishes import Wishes


def wanted_labels(
    wishes: Wishes, facts: Facts, ports: Iterable[int], annotated: Mapping[str, str]
) -> Mapping[str, str]:
    """All labels that the load balancer should have.

    Labels of other people stay. Ours are only completed when there is another reason to write, so that taking
    over from the official CCM changes nothing.

    Args:
        wishes: What the Service asks for.
        facts: What there is.
        ports: The Service's listeners.
        annotated: Labels that remember what is annotated.
    """
    service = wishes.service
    present = dict(facts.balancer.labels) if facts.balancer else {}
    labels = {key: value for key, value in present.items() if not is_own_port(key, value, facts.marks.own)}
    if wishes.tolerates_others or facts.marks.others:
        own_ports = {f"{PORT}{port}": service.uid for port in ports}
        labels |= own_ports or ({NO_PORT: service.uid} if facts.leads else {})
        if wishes.share:
            labels[SHARE] = wishes.share
    if facts.leads:
        labels[SERVICE_UID] = service.uid
        labels.pop(ANNOTATED, None)
        labels = {key: value for key, value in labels.items() if not key.startswith(FIELD)}
        labels |= annotated
        labels = with_annotated_labels(labels, wishes.labels)
    if facts.adopting:
        # Where the rest is planned anew, the label is there already, and so is the namespace.
        labels[ADOPTED] = present.get(ADOPTED) or (BY_LABEL if NAMESPACE in present else "true")
    if labels == present:
        return labels
    if facts.leads:
        labels |= {NAMESPACE: service.namespace, SERVICE: service.name}
    if facts.cluster:
        labels[CLUSTER] = facts.cluster
    return labels


def with_annotated_labels(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """A load balancer's labels with those of the annotation ``labels``; former ones of it go.

    Args:
        present: Its labels now.
        wanted: What the annotation says.
    """
    former = {key for key in present if _label_mark(key) in present}
    marks = {_label_mark(key) for key in former}
    kept = {key: value for key, value in present.items() if key not in former | marks}
    return {**kept, **wanted, **{_label_mark(key): "" for key in wanted}}


def _label_mark(key: str) -> str:
    return LABEL + hashlib.sha256(key.encode()).hexdigest()[:8]
