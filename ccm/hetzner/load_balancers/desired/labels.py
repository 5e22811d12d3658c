"""The labels that a load balancer should have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import (
    ADOPTED,
    ANNOTATED,
    BY_LABEL,
    CLUSTER,
    FIELD,
    NAMESPACE,
    NO_PORT,
    PORT,
    SERVICE,
    SERVICE_UID,
    SHARE,
    is_own_port,
    with_annotated_labels,
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
    names = {NAMESPACE: service.namespace, SERVICE: service.name} if facts.leads else {}
    if facts.marks.ours:
        labels |= names  # instead of those of whoever led before
    if labels == present:
        return labels
    labels |= names
    if facts.cluster:
        labels[CLUSTER] = facts.cluster
    return labels
