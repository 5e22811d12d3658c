"""Whose load balancer it is. Pure.

Everything that we make carries labels. What lacks them is never changed or deleted, unless an annotation
adopts it. A load balancer that the official CCM labelled with a Service's UID is that Service's.

A load balancer may be shared: by several Services of the cluster (``share``), or with somebody else
(``preserve-foreign``). Then labels also say which listener is whose.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ccm.cloud import ServiceView
from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.errors import NotOurLoadBalancer
from ccm.hetzner.load_balancers.listeners import occupied_ports
from ccm.hetzner.load_balancers.restoring import (
    ANNOTATED,
    FIELD,
    NAMESPACE,
    OURS,
    mark,
    mark_fields,
    with_annotated_labels,
)
from ccm.hetzner.load_balancers.wishes.read import Wishes
from ccm.hetzner.load_balancers.wishes.table import PREFIX
from ccm.hetzner.settings import Tenants

SERVICE_UID = "hcloud-ccm/service-uid"
CLUSTER = OURS + "cluster"
SERVICE = OURS + "service"
SHARE = OURS + "share"
ADOPTED = OURS + "adopted"
BY_LABEL = "by-label"  # adopted because somebody had labelled it for the namespace: that label is theirs
PORT = OURS + "port-"
_PORT_LABEL = re.compile(re.escape(PORT) + r"(\d{1,5})")


@dataclass(frozen=True, slots=True)
class Place:
    """A Service's place on its load balancer.

    Attributes:
        balancer: The load balancer; None = it has to be made.
        leads: Whether the Service decides about the load balancer itself and its targets, not only about its
            own ports.
        adopting: It becomes ours now.
    """

    balancer: LoadBalancer | None
    leads: bool = True
    adopting: bool = False


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Who is who in this project.

    Attributes:
        cluster: This cluster's id; may be empty.
        tenants: What the operator allows to whom.
        served: UIDs of Services that are certainly this cluster's.
    """

    cluster: str = ""
    tenants: Tenants = field(default_factory=Tenants)
    served: Collection[str] = ()


def locate(
    service: ServiceView, wishes: Wishes, balancers: Iterable[LoadBalancer], around: Neighbours
) -> Place:
    """Find a Service's load balancer.

    Args:
        service: The Service.
        wishes: Its annotations.
        balancers: All of the project.
        around: Whose they may be.

    Raises:
        NotOurLoadBalancer: it can't have one because of another that is not ours.
    """
    everyone = list(balancers)
    mine = [one for one in everyone if one.labels.get(SERVICE_UID) == service.uid]
    if len(mine) > 1:
        names = ", ".join(f"{one.name} ({one.id})" for one in mine)
        raise NotOurLoadBalancer(
            f"{len(mine)} load balancers are labelled as this Service's: {names}; keep one"
        )
    shared = _shared(service, wishes, everyone, around) if wishes.share else None
    if mine:
        _refuse_other_cluster(mine[0], around.cluster)
        return shared if shared is not None and shared.balancer is not mine[0] else Place(mine[0])
    if shared is not None:
        return shared
    if wishes.adopt:
        return Place(_adoptable(service, wishes, everyone, around), adopting=True)
    same_name = next((one for one in everyone if one.name == wishes.name), None)
    if same_name is not None:
        raise NotOurLoadBalancer(
            f"a load balancer named {same_name.name!r} ({same_name.id}) exists and is not this Service's; to "
            f"take it over, annotate the Service with {PREFIX}adopt: {str(same_name.id)!r}, or choose "
            f"another name with {PREFIX}name"
        )
    return Place(None)


def placed_on(service: ServiceView, balancers: Iterable[LoadBalancer]) -> list[LoadBalancer]:
    """Load balancers on which a Service has anything, whatever its annotations say by now."""
    return [
        one
        for one in balancers
        if one.labels.get(SERVICE_UID) == service.uid or service.uid in ports_by_label(one).values()
    ]


def _shared(
    service: ServiceView, wishes: Wishes, balancers: list[LoadBalancer], around: Neighbours
) -> Place | None:
    """The load balancer with the word, if the Service may be there. Whoever is there already stays."""
    doubtful: LoadBalancer | None = None
    for one in sorted(balancers, key=lambda one: one.id):
        if one.labels.get(SHARE) != wishes.share:
            continue
        leader = one.labels.get(SERVICE_UID, "")
        place = Place(one, leads=leader == "" or leader in own_uids(service, one))
        if placed_on(service, (one,)):
            return place
        if not around.tenants.may_share(service.namespace, one.labels.get(NAMESPACE, service.namespace)):
            continue
        owner = one.labels.get(CLUSTER, "")
        if owner and owner == around.cluster:
            return place
        # Without ids, only a Service of this cluster tells whose it is: UIDs are no other cluster's.
        if not owner and {leader, *ports_by_label(one).values()} & {*around.served}:
            return place
        doubtful = doubtful or (None if owner and around.cluster else one)
    if doubtful is not None:
        raise NotOurLoadBalancer(
            f"load balancer {doubtful.name!r} ({doubtful.id}) is shared as {wishes.share!r}, and nothing "
            f"tells whether by this cluster: set CCM_CLUSTER_ID, or choose another word for {PREFIX}share"
        )
    return None


def own_uids(service: ServiceView, balancer: LoadBalancer) -> frozenset[str]:
    """The Service's UID, and that of the one which had its name before, if that leads here.

    Two Services of a cluster never have the same name at the same time: the former is gone, and was not
    cleaned up after, as when a cluster is restored from a backup.
    """
    labels = balancer.labels
    same_name = (labels.get(NAMESPACE), labels.get(SERVICE)) == (service.namespace, service.name)
    former = labels.get(SERVICE_UID, "") if same_name and labels.get(CLUSTER) else ""
    return frozenset({service.uid, former} - {""})


def _adoptable(
    service: ServiceView, wishes: Wishes, balancers: list[LoadBalancer], around: Neighbours
) -> LoadBalancer:
    found = [one for one in balancers if wishes.adopt in (str(one.id), one.name)]
    if not found:
        raise NotOurLoadBalancer(
            f"{PREFIX}adopt: {wishes.adopt!r} is neither id nor name of a load balancer of this project"
        )
    balancer = found[0]
    _refuse_other_cluster(balancer, around.cluster)
    owner = balancer.labels.get(SERVICE_UID, "")
    if owner and owner != service.uid:
        raise NotOurLoadBalancer(
            f"{PREFIX}adopt: load balancer {balancer.name!r} ({balancer.id}) belongs to the Service with UID "
            f"{owner}; remove its label {SERVICE_UID} if that Service does not exist any more"
        )
    if owner != service.uid and not around.tenants.may_adopt(service.namespace, balancer.labels):
        raise NotOurLoadBalancer(
            f"{PREFIX}adopt: Services of namespace {service.namespace!r} may not adopt load balancer "
            f"{balancer.name!r} ({balancer.id}): have it labelled {NAMESPACE}={service.namespace} at "
            "Hetzner, or the namespace named in CCM_ADOPT_NAMESPACES"
        )
    return balancer


def is_of_other_cluster(balancer: LoadBalancer, cluster: str) -> bool:
    """Whether it says that it belongs to another cluster than this one, which has an id too."""
    return bool(cluster) and balancer.labels.get(CLUSTER, cluster) not in {"", cluster}


def _refuse_other_cluster(balancer: LoadBalancer, cluster: str) -> None:
    other = balancer.labels.get(CLUSTER, "")
    if is_of_other_cluster(balancer, cluster):
        raise NotOurLoadBalancer(
            f"load balancer {balancer.name!r} ({balancer.id}) belongs to cluster {other!r}, "
            f"this is {cluster!r}"
        )


def ports_by_label(balancer: LoadBalancer) -> dict[int, str]:
    """Which Service (UID) has which listener, where labels say so."""
    found: dict[int, str] = {}
    for key, value in balancer.labels.items():
        match = _PORT_LABEL.fullmatch(key)
        if match:
            found[int(match[1])] = value
    return found


def is_shared(service: ServiceView, wishes: Wishes, balancer: LoadBalancer | None) -> bool:
    """Whether listeners of others are to be expected, and left alone."""
    if wishes.share or wishes.preserve_foreign:
        return True
    labels = balancer.labels if balancer is not None else {}
    others = set(ports_by_label(balancer).values()) - {service.uid} if balancer is not None else set[str]()
    return SHARE in labels or bool(others)


def is_shared_by_word(wishes: Wishes, balancer: LoadBalancer | None) -> bool:
    """Whether it is one of those for several Services, which nobody but us knows how to make."""
    return bool(wishes.share) or (balancer is not None and SHARE in balancer.labels)


def wanted_labels(
    service: ServiceView,
    wishes: Wishes,
    place: Place,
    cluster: str,
    ports: Iterable[int],
    *,
    kept: frozenset[str] = frozenset(),
) -> Mapping[str, str]:
    """All labels that the load balancer should have.

    Labels of other people stay. Ours are only completed when there is another reason to write, so that taking
    over from the official CCM changes nothing.

    Args:
        service: The Service.
        wishes: Its annotations.
        place: Where it is.
        cluster: The cluster's id; may be empty.
        ports: The Service's listeners.
        kept: Annotated settings that can't go back to their defaults yet.
    """
    present = dict(place.balancer.labels) if place.balancer else {}
    own = own_uids(service, place.balancer) if place.balancer else frozenset[str]()
    labels = {key: value for key, value in present.items() if not _is_own_port(key, value, own)}
    if is_shared(service, wishes, place.balancer):
        labels.update({f"{PORT}{port}": service.uid for port in ports})
        if wishes.share:
            labels[SHARE] = wishes.share
    if place.leads:
        labels[SERVICE_UID] = service.uid
        labels.pop(ANNOTATED, None)
        labels = {key: value for key, value in labels.items() if not key.startswith(FIELD)}
        if not is_shared_by_word(wishes, place.balancer):
            labels |= mark_fields(wishes, place.balancer)
        if annotated := mark(wishes, place.balancer, kept):
            labels[ANNOTATED] = annotated
        labels = with_annotated_labels(labels, wishes.labels)
    if place.adopting:
        labels[ADOPTED] = BY_LABEL if NAMESPACE in present else "true"
    if labels == present:
        return labels
    if place.leads:
        labels |= {NAMESPACE: service.namespace, SERVICE: service.name}
    if cluster:
        labels[CLUSTER] = cluster
    return labels


def foreign_ports(service: ServiceView, wishes: Wishes, place: Place) -> dict[int, str]:
    """Ports that are not the Service's to use, and who has them."""
    balancer = place.balancer
    if balancer is None or not is_shared(service, wishes, balancer):
        return {}
    owners, own = ports_by_label(balancer), own_uids(service, balancer)
    taken = {port: f"the Service with UID {uid}" for port, uid in owners.items() if uid not in own}
    if not owners and balancer.labels.get(SERVICE_UID) == service.uid and not place.adopting:
        return taken  # it was not shared until now
    for listener in balancer.services:
        if owners.get(listener.listen_port) not in own:
            for port in occupied_ports(listener):
                taken.setdefault(port, "somebody else")
    return taken


def labels_after(service: ServiceView, balancer: LoadBalancer) -> Mapping[str, str]:
    """The labels of a load balancer that a Service leaves to others; the next Service leads, if any."""
    own = frozenset({service.uid})
    left = {key: value for key, value in balancer.labels.items() if not _is_own_port(key, value, own)}
    others = sorted(uid for uid in ports_by_label(balancer).values() if uid != service.uid)
    if left.get(SERVICE_UID) != service.uid:
        return left
    if others:
        return {**left, SERVICE_UID: others[0]}
    left = with_annotated_labels(left, {})
    theirs = {NAMESPACE} if left.get(ADOPTED) == BY_LABEL else set[str]()
    ours = {SERVICE_UID, *(key for key in left if key.startswith(OURS))} - theirs
    return {key: value for key, value in left.items() if key not in ours}


def _is_own_port(key: str, value: str, own: frozenset[str]) -> bool:
    return value in own and _PORT_LABEL.fullmatch(key) is not None
