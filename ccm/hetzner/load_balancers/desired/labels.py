"""The labels that a load balancer should have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.desired.defaults import (
    annotated_fields_label,
    annotated_label,
)
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
    own_uids,
    ports_by_label,
    with_annotated_labels,
)
from ccm.hetzner.load_balancers.wishes import Wishes


def _is_shared(wishes: Wishes, balancer: LoadBalancer | None) -> bool:
    """Whether listeners of others are to be expected, and left alone."""
    if wishes.share or wishes.preserve_foreign:
        return True
    labels = balancer.labels if balancer is not None else {}
    others = (
        set(ports_by_label(balancer).values()) - {wishes.service.uid} if balancer is not None else set[str]()
    )
    return SHARE in labels or bool(others)


def is_shared_by_word(wishes: Wishes, balancer: LoadBalancer | None) -> bool:
    """Whether it is one of those for several Services, which nobody but us knows how to make."""
    return bool(wishes.share) or (balancer is not None and SHARE in balancer.labels)


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
    service, balancer = wishes.service, facts.balancer
    present = dict(balancer.labels) if balancer else {}
    own = own_uids(service, balancer) if balancer else frozenset[str]()
    labels = {key: value for key, value in present.items() if not is_own_port(key, value, own)}
    if _is_shared(wishes, balancer):
        own_ports = {f"{PORT}{port}": service.uid for port in ports}
        labels |= own_ports or ({NO_PORT: service.uid} if facts.leads else {})
        if wishes.share:
            labels[SHARE] = wishes.share
    if facts.leads:
        labels[SERVICE_UID] = service.uid
        labels.pop(ANNOTATED, None)
        labels = {key: value for key, value in labels.items() if not key.startswith(FIELD)}
        if not is_shared_by_word(wishes, balancer):
            labels |= annotated_fields_label(wishes, balancer)
        if annotated := annotated_label(wishes, balancer, kept):
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


def foreign_ports(wishes: Wishes, facts: Facts) -> dict[int, str]:
    """Ports that are not the Service's to use, and who has them."""
    service, balancer = wishes.service, facts.balancer
    if balancer is None or not _is_shared(wishes, balancer):
        return {}
    owners, own = ports_by_label(balancer), own_uids(service, balancer)
    taken = {port: f"the Service with UID {uid}" for port, uid in owners.items() if uid not in own}
    if not owners and balancer.labels.get(SERVICE_UID) == service.uid and not facts.adopting:
        return taken  # it was not shared until now
    for listener in balancer.services:
        if owners.get(listener.listen_port) not in own:
            for port in listener.ports:
                taken.setdefault(port, "somebody else")
    return taken
