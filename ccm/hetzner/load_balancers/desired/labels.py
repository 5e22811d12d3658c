"""The labels that a load balancer should have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ccm.hetzner.load_balancers.desired.defaults import annotated_fields_label, annotated_label
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


def _is_shared(wishes: Wishes, facts: Facts) -> bool:
    """Whether listeners of others are to be expected, and left alone."""
    others = {*facts.marks.owners.values()} - {wishes.service.uid}
    return bool(wishes.share or wishes.preserve_foreign or facts.marks.shared or others)


def foreign_ports(wishes: Wishes, facts: Facts) -> dict[int, str]:
    """Ports that are not the Service's to use, and who has them."""
    balancer, owners, own = facts.balancer, facts.marks.owners, facts.marks.own
    if balancer is None or not _is_shared(wishes, facts):
        return {}
    taken = {port: f"the Service with UID {uid}" for port, uid in owners.items() if uid not in own}
    if not owners and balancer.labels.get(SERVICE_UID) == wishes.service.uid and not facts.adopting:
        return taken  # it was not shared until now
    for listener in balancer.services:
        if owners.get(listener.listen_port) not in own:
            for port in listener.ports:
                taken.setdefault(port, "somebody else")
    return taken


def wanted_labels(
    wishes: Wishes, facts: Facts, ports: Iterable[int], *, kept: frozenset[str] = frozenset()
) -> Mapping[str, str]:
    """All labels that the load balancer should have.

    Labels of other people stay. Ours are only completed when there is another reason to write, so that taking
    over from the official CCM changes nothing.

    Args:
        wishes: What the Service asks for.
        facts: What there is.
        ports: The Service's listeners.
        kept: Annotated settings that can't go back to their defaults yet.
    """
    service = wishes.service
    present = dict(facts.balancer.labels) if facts.balancer else {}
    labels = {key: value for key, value in present.items() if not is_own_port(key, value, facts.marks.own)}
    if _is_shared(wishes, facts):
        own_ports = {f"{PORT}{port}": service.uid for port in ports}
        labels |= own_ports or ({NO_PORT: service.uid} if facts.leads else {})
        if wishes.share:
            labels[SHARE] = wishes.share
    if facts.leads:
        labels[SERVICE_UID] = service.uid
        labels.pop(ANNOTATED, None)
        labels = {key: value for key, value in labels.items() if not key.startswith(FIELD)}
        if not (wishes.share or facts.marks.shared):
            labels |= annotated_fields_label(wishes, facts)
        if annotated := annotated_label(wishes, facts, kept):
            labels[ANNOTATED] = annotated
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
