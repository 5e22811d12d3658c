"""What a Service's load balancer should be, all things considered. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ccm.cloud import Notice
from ccm.hetzner.api.wire import Certificate, LoadBalancer, LoadBalancerService, LoadBalancerType
from ccm.hetzner.load_balancers.desired.certificates import WantedCertificates, wanted_certificates
from ccm.hetzner.load_balancers.desired.defaults import annotated_fields, settings_to_default
from ccm.hetzner.load_balancers.desired.desired import Desired
from ccm.hetzner.load_balancers.desired.labels import foreign_ports, is_shared_by_word, wanted_labels
from ccm.hetzner.load_balancers.desired.listeners import Before, occupied_ports, wanted_listeners
from ccm.hetzner.load_balancers.desired.site import (
    changes_of_immutable,
    choose_site,
    is_held_elsewhere,
    unknown_site,
)
from ccm.hetzner.load_balancers.desired.targets import foreign_targets, is_strange, wanted_targets
from ccm.hetzner.load_balancers.desired.type import TypeChoice, choose_type
from ccm.hetzner.load_balancers.errors import InvalidAnnotations, wrong_project
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import ADOPTED, NAMESPACE, is_ours, may_delete
from ccm.hetzner.load_balancers.wishes import PREFIX, Wishes
from ccm.hetzner.load_balancers.wording import enumerated

# Not even what is in them is known where they are too long: then their problem's key is the prefix alone.
_TARGET_KEYS = frozenset({PREFIX, PREFIX + "node-selector", PREFIX + "use-private-ip"})


def decide(wishes: Wishes, facts: Facts) -> Desired:
    """Decide what a Service's load balancer should be.

    What can't be understood or found now stays as it is, and the rest is done.

    Args:
        wishes: What the Service asks for.
        facts: What there is.

    Raises:
        InvalidAnnotations: There is no load balancer, and none is made for wrong annotations.
        AccessDenied: None is made in a project that has none of the servers.
        Rejected: Nothing says where to make one.
    """
    if facts.balancer is None and wishes.is_unservable:
        notices = (one for one in wishes.unsupported if one.reason == "UnsupportedProtocolConfigured")
        return Desired("", {}, exists=False, notices=tuple(notices))
    kind = choose_type(wishes, facts)
    problems = {**wishes.problems, **unknown_site(wishes, facts)}
    if kind.problem:
        problems[PREFIX + "type"] = kind.problem
    invalid = InvalidAnnotations([*problems.values(), *wishes.warnings.values()]) if problems else None
    if facts.balancer is None and invalid is not None:
        raise invalid
    if facts.balancer is None and is_strange(facts):
        raise wrong_project(facts.nodes)
    certificates = WantedCertificates() if problems else wanted_certificates(wishes, facts)
    targets, notices_of_targets = wanted_targets(wishes, facts, kind.limits.max_targets)
    desired = _desired(wishes, facts, kind, certificates)
    if facts.leads or facts.balancer is None:
        desired = replace(desired, targets=targets)
    desired = _within_what_is_known(desired, wishes, facts, problems, certificates)
    return replace(
        desired,
        site=choose_site(wishes, facts),
        requests=tuple(certificates.requests),
        retries=tuple(one for one in certificates.failed if one.id not in facts.certificates.retried),
        certificates=frozenset(certificates.managed),
        unused=_unused(desired, facts, certificates),
        errors=(*([invalid] if invalid else []), *certificates.errors),
        notices=(
            *([] if problems else _warnings(wishes)),
            *kind.notices,
            *notices_of_targets,
            *wishes.unsupported,
            *desired.notices,
            *certificates.notices,
        ),
    )


def _desired(wishes: Wishes, facts: Facts, kind: TypeChoice, certificates: WantedCertificates) -> Desired:
    """All but the targets, as if everything that is asked for were understood and found."""
    balancer, before = facts.balancer, _before(wishes, facts.balancer)
    listeners, notices = _fitting(wishes, facts, kind.limits, certificates, before)
    ports = [one.listen_port for one in listeners]
    labels = wanted_labels(wishes, facts, ports, kept=kind.kept)
    if NAMESPACE in labels and not before.ours:
        # It becomes ours by this change; had it stayed as it was, its checks would stay too.
        listeners, notices = _fitting(wishes, facts, kind.limits, certificates, replace(before, ours=True))
    taken = frozenset(foreign_ports(wishes, facts))
    if not facts.leads and balancer is not None:
        return Desired(
            balancer.name, labels, listeners=tuple(listeners), foreign_ports=taken, notices=tuple(notices)
        )
    back = settings_to_default(wishes, balancer)
    rdns: dict[str, str | None] = {family: None for family in ("ipv4", "ipv6") if family in back}
    return Desired(
        # What is not annotated, and never was, keeps the name that it has.
        name=wishes.name if balancer is None or {"name"} & {*wishes.asked, *back} else balancer.name,
        labels=labels,
        type=kind.wanted,
        algorithm=wishes.algorithm if {"algorithm"} & {*wishes.asked, *back} or not balancer else None,
        public=True if "public" in back else wishes.public,
        network=None if is_held_elsewhere(wishes, facts) else facts.network,
        private_ip=wishes.private_ipv4,
        ip_range=wishes.ip_range,
        listeners=tuple(listeners),
        rdns={**rdns, **wishes.rdns},
        protection=False if "protection" in back else wishes.protection,
        restores=frozenset(back) - kind.kept,
        foreign_ports=taken,
        foreign_targets=foreign_targets(wishes, facts),
        reachable=frozenset(
            number
            for number, server in facts.servers.items()
            if server.public_net.ipv4 is not None and server.public_net.ipv4.ip
        ),
        notices=(*notices, *_not_adopted(wishes, facts), *changes_of_immutable(wishes, facts)),
    )


def _before(wishes: Wishes, balancer: LoadBalancer | None) -> Before:
    """What may stay of the listeners that there are."""
    if balancer is None or is_shared_by_word(wishes, balancer):
        return Before()
    listeners = {listener.listen_port: listener for listener in balancer.services}
    return Before(listeners, annotated_fields(balancer.labels), is_ours(balancer))


def _fitting(
    wishes: Wishes, facts: Facts, limits: LoadBalancerType, certificates: WantedCertificates, before: Before
) -> tuple[list[LoadBalancerService], list[Notice]]:
    """The listeners for which there is room, and what the owner should know."""
    listeners, notices = wanted_listeners(wishes, certificates.by_port, before)
    taken = foreign_ports(wishes, facts)
    listeners, conflicts = _without_conflicts(listeners, taken)
    notices += conflicts
    # Listeners of others take room too.
    present = facts.balancer.services if facts.balancer is not None else ()
    room = max(0, limits.max_services - sum(one.listen_port in taken for one in present))
    ports = sum(one.protocol == "TCP" and one.node_port > 0 for one in wishes.service.ports)
    beyond = max(0, ports - len(wishes.ports))
    if len(listeners) > room or beyond:
        notices.append(_too_many(listeners[room:], beyond, limits))
    return listeners[:room], notices


def _without_conflicts(
    listeners: list[LoadBalancerService], taken: Mapping[int, str]
) -> tuple[list[LoadBalancerService], list[Notice]]:
    free = [one for one in listeners if not occupied_ports(one) & taken.keys()]
    ports = sorted({port for one in listeners for port in occupied_ports(one) if port in taken})
    if not ports:
        return listeners, []
    who = enumerated([f"port {port} belongs to {taken[port]}" for port in ports], between="; ")
    return free, [Notice("LoadBalancerPortConflict", f"on the shared load balancer {who}")]


def _too_many(left_out: Sequence[LoadBalancerService], beyond: int, limits: LoadBalancerType) -> Notice:
    out = enumerated([str(one.listen_port) for one in left_out])
    more = f"{', ' if out else ''}{beyond} that no type would take" if beyond else ""
    text = (
        f"type {limits.name} takes {limits.max_services} ports; these are left out: {out}{more}; "
        "choose a larger type with load-balancer.hetzner.cloud/type"
    )
    return Notice("MaxServicesReached", text)


def _not_adopted(wishes: Wishes, facts: Facts) -> list[Notice]:
    """A Service that has a load balancer of its own does not get another by annotation."""
    one = facts.balancer
    if one is None or ADOPTED in one.labels or wishes.adopt in ("", str(one.id), one.name) or facts.adopting:
        return []
    text = (
        f"{PREFIX}adopt: {wishes.adopt!r} is not adopted, because load balancer {one.name} ({one.id}) is "
        "this Service's; delete that to have the other adopted"
    )
    return [Notice("LoadBalancerNotAdopted", text)]


def _within_what_is_known(
    desired: Desired,
    wishes: Wishes,
    facts: Facts,
    problems: Collection[str],
    certificates: WantedCertificates,
) -> Desired:
    """What can't be understood or found now stays as it is."""
    actual = facts.balancer
    if actual is None:
        return desired
    if problems:
        unknown = bool({*problems} & _TARGET_KEYS)
        return Desired(
            name=actual.name,
            labels=actual.labels,
            targets=None if unknown else desired.targets,
            foreign_ports=frozenset(one.listen_port for one in actual.services),
            foreign_targets=desired.foreign_targets,
            reachable=desired.reachable,
            notices=desired.notices,
        )
    if certificates.errors or certificates.refused:
        wanted = {one.listen_port for one in desired.listeners}
        kept = {one.listen_port for one in actual.services} & wishes.ports.keys() - wanted
        return replace(desired, foreign_ports=desired.foreign_ports | kept)
    return desired


def _unused(desired: Desired, facts: Facts, certificates: WantedCertificates) -> tuple[Certificate, ...]:
    """Managed certificates of the Service that nothing of it serves with any more."""
    kept = facts.balancer.services if facts.balancer else ()
    serving = [*desired.listeners, *(one for one in kept if one.listen_port in desired.foreign_ports)]
    used = {number for one in serving if one.http for number in one.http.certificates}
    stays = used | certificates.managed.keys() | facts.certificates.spared
    return tuple(
        one
        for number, one in facts.certificates.known.items()
        if number not in stays and may_delete(one, facts.service, facts.cluster)
    )


def _warnings(wishes: Wishes) -> list[Notice]:
    """What has no effect; with problems, one Event names both."""
    if not wishes.warnings:
        return []
    return [Notice("InvalidLoadBalancerAnnotation", enumerated([*wishes.warnings.values()], between="; "))]
