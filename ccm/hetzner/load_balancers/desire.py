"""What a Service's load balancer should be, all things considered. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ccm.cloud import Notice, ServiceView
from ccm.hetzner.api.wire import LoadBalancer, LoadBalancerService, LoadBalancerType
from ccm.hetzner.load_balancers.immovable import immovable, is_held_elsewhere
from ccm.hetzner.load_balancers.listeners import Before, occupied_ports, wanted_listeners
from ccm.hetzner.load_balancers.ownership import (
    ADOPTED,
    Place,
    foreign_ports,
    is_shared_by_word,
    wanted_labels,
)
from ccm.hetzner.load_balancers.plan import Desired
from ccm.hetzner.load_balancers.restoring import NAMESPACE, is_ours, marked_fields, restored
from ccm.hetzner.load_balancers.targets import Target, target_of
from ccm.hetzner.load_balancers.wishes.read import Wishes
from ccm.hetzner.load_balancers.wishes.table import PREFIX
from ccm.hetzner.load_balancers.wording import enumerated


@dataclass(frozen=True)
class Circumstances:
    """What is known besides the Service.

    Attributes:
        place: Its load balancer, and what it may decide about it.
        cluster: The cluster's id; may be empty.
        network: The private network, or None.
        type: The type that is wanted; None = leave it.
        limits: The type whose limits hold.
        certificates: Ids by port.
        targets: The targets that are possible.
        cluster_targets: Identities of targets that can only be this cluster's.
        reachable: Ids of servers that have a public IPv4 address.
        kept: Annotated settings that can't go back to their defaults yet.
    """

    place: Place
    cluster: str
    network: int | None
    type: LoadBalancerType | None
    limits: LoadBalancerType
    certificates: Mapping[int, tuple[int, ...]]
    targets: tuple[Target, ...] = ()
    cluster_targets: frozenset[tuple[int, str]] = field(default_factory=frozenset[tuple[int, str]])
    reachable: frozenset[int] = frozenset()
    kept: frozenset[str] = frozenset()


def desire(service: ServiceView, wishes: Wishes, around: Circumstances) -> tuple[Desired, list[Notice]]:
    """The load balancer that a Service should have, and what its owner should know."""
    place = around.place
    before = _before(wishes, place)
    listeners, notices = _fitting(service, wishes, around, before)
    ports = [one.listen_port for one in listeners]
    labels = wanted_labels(service, wishes, place, around.cluster, ports, kept=around.kept)
    if NAMESPACE in labels and not before.ours:
        # It becomes ours by this change; had it stayed as it was, its checks would stay too.
        listeners, notices = _fitting(service, wishes, around, replace(before, ours=True))
    taken = foreign_ports(service, wishes, place)
    if not place.leads and place.balancer is not None:
        name = place.balancer.name
        desired = Desired(name, labels, listeners=tuple(listeners), foreign_ports=frozenset(taken))
        return desired, notices
    notices += _not_adopted(wishes, place)
    notices += immovable(service, wishes, place.balancer, around.network)
    back = restored(wishes, place.balancer)
    rdns: dict[str, str | None] = {family: None for family in ("ipv4", "ipv6") if family in back}
    desired = Desired(
        name=_name(wishes, place, back),
        labels=labels,
        type=around.type,
        algorithm=wishes.algorithm if {"algorithm"} & {*wishes.asked, *back} or not place.balancer else None,
        public=True if "public" in back else wishes.public,
        network=None if is_held_elsewhere(wishes, place.balancer, around.network) else around.network,
        private_ip=wishes.private_ipv4,
        ip_range=wishes.ip_range,
        listeners=tuple(listeners),
        targets=around.targets,
        rdns={**rdns, **wishes.rdns},
        protection=False if "protection" in back else wishes.protection,
        restores=frozenset(back) - around.kept,
        foreign_ports=frozenset(taken),
        foreign_targets=_foreign_targets(wishes, place.balancer, around),
        reachable=around.reachable,
    )
    return desired, notices


def _before(wishes: Wishes, place: Place) -> Before:
    """What may stay of the listeners that there are."""
    one = place.balancer
    if one is None or is_shared_by_word(wishes, one):
        return Before()
    listeners = {listener.listen_port: listener for listener in one.services}
    return Before(listeners, marked_fields(one.labels), is_ours(one))


def _fitting(
    service: ServiceView, wishes: Wishes, around: Circumstances, before: Before
) -> tuple[list[LoadBalancerService], list[Notice]]:
    """The listeners for which there is room, and what the owner should know."""
    place = around.place
    listeners, notices = wanted_listeners(service, wishes, around.certificates, before)
    taken = foreign_ports(service, wishes, place)
    listeners, conflicts = _without_conflicts(listeners, taken)
    notices += conflicts
    room = max(0, around.limits.max_services - _kept_listeners(place, taken))
    ports = sum(one.protocol == "TCP" and one.node_port > 0 for one in service.ports)
    beyond = max(0, ports - len(wishes.ports))
    if len(listeners) > room or beyond:
        notices.append(_too_many(listeners[room:], beyond, around.limits))
    return listeners[:room], notices


def only_targets(desired: Desired, actual: LoadBalancer) -> Desired:
    """The same, but everything except the targets stays: for a Service whose annotations are wrong."""
    return Desired(
        name=actual.name,
        labels=actual.labels,
        targets=desired.targets,
        foreign_ports=frozenset(one.listen_port for one in actual.services),
        foreign_targets=desired.foreign_targets,
        reachable=desired.reachable,
    )


def released(
    labels: Mapping[str, str], actual: LoadBalancer, ports: Iterable[int], *, targets: bool
) -> Desired:
    """What is left of a load balancer that stays when its Service goes.

    Args:
        labels: That it keeps.
        actual: It now.
        ports: Listeners that go.
        targets: Whether the targets go too.
    """
    goes = set(ports)
    return Desired(
        name=actual.name,
        labels=labels,
        targets=() if targets else None,
        foreign_ports=frozenset(one.listen_port for one in actual.services) - goes,
    )


def _not_adopted(wishes: Wishes, place: Place) -> list[Notice]:
    """A Service that has a load balancer of its own does not get another by annotation."""
    one = place.balancer
    if one is None or ADOPTED in one.labels or wishes.adopt in ("", str(one.id), one.name) or place.adopting:
        return []
    text = (
        f"{PREFIX}adopt: {wishes.adopt!r} is not adopted, because load balancer {one.name} ({one.id}) is "
        "this Service's; delete that to have the other adopted"
    )
    return [Notice("LoadBalancerNotAdopted", text)]


def _name(wishes: Wishes, place: Place, back: Collection[str]) -> str:
    """What is not annotated, and never was, keeps the name that it has."""
    return wishes.name if place.balancer is None or {"name"} & {*wishes.asked, *back} else place.balancer.name


def _without_conflicts(
    listeners: list[LoadBalancerService], taken: Mapping[int, str]
) -> tuple[list[LoadBalancerService], list[Notice]]:
    free = [one for one in listeners if not occupied_ports(one) & taken.keys()]
    ports = sorted({port for one in listeners for port in occupied_ports(one) if port in taken})
    if not ports:
        return listeners, []
    who = enumerated([f"port {port} belongs to {taken[port]}" for port in ports], between="; ")
    return free, [Notice("LoadBalancerPortConflict", f"on the shared load balancer {who}")]


def _kept_listeners(place: Place, taken: Collection[int]) -> int:
    """How many listeners of others there are; they take room too."""
    return sum(one.listen_port in taken for one in place.balancer.services) if place.balancer else 0


def _too_many(left_out: Sequence[LoadBalancerService], beyond: int, limits: LoadBalancerType) -> Notice:
    out = enumerated([str(one.listen_port) for one in left_out])
    more = f"{', ' if out else ''}{beyond} that no type would take" if beyond else ""
    text = (
        f"type {limits.name} takes {limits.max_services} ports; these are left out: {out}{more}; "
        "choose a larger type with load-balancer.hetzner.cloud/type"
    )
    return Notice("MaxServicesReached", text)


def _foreign_targets(
    wishes: Wishes, balancer: LoadBalancer | None, around: Circumstances
) -> frozenset[tuple[int, str]]:
    """Targets that somebody else added, where that is possible."""
    if balancer is None or not wishes.preserve_foreign:
        return frozenset()
    present = (target_of(one) for one in balancer.targets)
    identities = {one.identity for one in present if one is not None}
    return frozenset(identities - around.cluster_targets)
