"""How a Service leaves a load balancer: what was made for it is deleted, what others use is theirs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ccm.cloud import Notice, ServiceView
from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.desired import Desired
from ccm.hetzner.load_balancers.desired.labels import with_annotated_labels
from ccm.hetzner.load_balancers.labels import (
    ADOPTED,
    BY_LABEL,
    NAMESPACE,
    OURS,
    SERVICE_UID,
    is_own_port,
    marks_of,
    ports_by_label,
)
from ccm.hetzner.load_balancers.plan.changes import changes
from ccm.hetzner.load_balancers.plan.labels import set_labels
from ccm.hetzner.load_balancers.plan.steps import Change


@dataclass(frozen=True, slots=True)
class Released:
    """What becomes of a load balancer that a Service leaves.

    Attributes:
        deletes: Whether it is deleted, unless the API refuses that because it is protected.
        changes: What is changed where it stays; labels last.
        notices: What the owner should know where it stays.
    """

    deletes: bool
    changes: tuple[Change, ...]
    notices: tuple[Notice, ...]


def release(service: ServiceView, balancer: LoadBalancer) -> Released | None:
    """Decide what becomes of a load balancer that a Service leaves; None = it has nothing there any more."""
    marks = marks_of(service, balancer)
    if not marks.placed:
        return None
    name, owners = f"load balancer {balancer.name} ({balancer.id})", marks.owners
    labels = labels_after(service, balancer)
    others = set(owners.values()) - {service.uid}
    foreign = bool(owners) and any(one.listen_port not in owners for one in balancer.services)
    leads = balancer.labels.get(SERVICE_UID) == service.uid
    if not leads or others or foreign or ADOPTED in balancer.labels:
        mine = [port for port, uid in owners.items() if uid == service.uid]
        ports = mine if owners else [one.listen_port for one in balancer.services]
        why = "others use it" if foreign else "it was not made for this Service"
        notice = Notice("LoadBalancerReleased", f"{name} stays, because {why}", warning=False)
        rest = _changes(labels, balancer, ports, targets=leads and not owners)
        return Released(deletes=False, changes=rest, notices=() if others else (notice,))
    text = f"{name} stays because it is protected against deletion; delete it yourself when you want to"
    return Released(
        deletes=not balancer.protection.delete,
        changes=_changes(labels, balancer, (), targets=False),
        notices=(Notice("LoadBalancerProtected", text),),
    )


def _changes(
    labels: Mapping[str, str], actual: LoadBalancer, ports: Iterable[int], *, targets: bool
) -> tuple[Change, ...]:
    """What changes where the load balancer stays.

    Labels go last: as long as they are there, what fails now is found again.

    Args:
        labels: That it keeps.
        actual: It now.
        ports: Listeners that go.
        targets: Whether the targets go too.
    """
    rest = Desired(
        name=actual.name,
        labels=actual.labels,
        targets=() if targets else None,
        foreign_ports=frozenset(one.listen_port for one in actual.services) - {*ports},
    )
    first = changes(rest, actual)
    last = [set_labels(labels, frozenset(map(str, first)))] if labels != actual.labels else []
    return (*first, *last)


def labels_after(service: ServiceView, balancer: LoadBalancer) -> Mapping[str, str]:
    """The labels of a load balancer that a Service leaves to others; the next Service leads, if any."""
    own = frozenset({service.uid})
    left = {key: value for key, value in balancer.labels.items() if not is_own_port(key, value, own)}
    others = sorted(uid for uid in ports_by_label(balancer).values() if uid != service.uid)
    if left.get(SERVICE_UID) != service.uid:
        return left
    if others:
        return {**left, SERVICE_UID: others[0]}
    left = with_annotated_labels(left, {})
    theirs = {NAMESPACE} if left.get(ADOPTED) == BY_LABEL else set[str]()
    ours = {SERVICE_UID, *(key for key in left if key.startswith(OURS))} - theirs
    return {key: value for key, value in left.items() if key not in ours}
