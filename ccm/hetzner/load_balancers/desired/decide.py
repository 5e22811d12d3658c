"""What a Service's load balancer should be, all things considered. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from ccm.cloud import Notice, Rejected
from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.desired.certificates import CertificateChoice, choose_certificates
from ccm.hetzner.load_balancers.desired.checks import with_checks
from ccm.hetzner.load_balancers.desired.defaults import choose_settings, labels_of_annotations
from ccm.hetzner.load_balancers.desired.desired import Desired, Site
from ccm.hetzner.load_balancers.desired.labels import wanted_labels
from ccm.hetzner.load_balancers.desired.listeners import ListenerChoice, choose_listeners
from ccm.hetzner.load_balancers.desired.sharing import foreign_ports
from ccm.hetzner.load_balancers.desired.site import SiteChoice, choose_site
from ccm.hetzner.load_balancers.desired.targets import choose_targets
from ccm.hetzner.load_balancers.desired.type import TypeChoice, choose_type
from ccm.hetzner.load_balancers.errors import InvalidAnnotations
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import ADOPTED, NAMESPACE
from ccm.hetzner.load_balancers.wishes import PREFIX, Wishes

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
    actual = facts.balancer
    if actual is None and wishes.is_unservable and not (facts.others and wishes.problems):
        notices = (one for one in wishes.unsupported if one.reason == "UnsupportedProtocolConfigured")
        return Desired("", {}, exists=False, notices=tuple(notices))
    last = [*_not_adopted(wishes, facts)]
    kind, place = choose_type(wishes, facts), choose_site(wishes, facts)
    problems = {**wishes.problems, **kind.problems, **place.problems}
    # Whatever is wrong and whatever has no effect is told in one Event.
    complaints = [*problems.values(), *wishes.warnings.values()]
    invalid = [InvalidAnnotations(complaints)] if complaints else []
    if problems and actual is None:
        raise invalid[0]
    certificates = CertificateChoice() if problems else choose_certificates(wishes, facts)
    targets = choose_targets(wishes, facts, kind.limits)
    taken = foreign_ports(wishes, facts)
    listeners = choose_listeners(wishes, facts, kind.limits, certificates.by_port, taken)
    told = [] if problems else [notice for error in invalid for notice in error.notices]
    told += [*kind.notices, *place.notices, *certificates.notices, *targets.notices]
    known = Desired(
        name="",
        labels={},
        targets=targets.targets,
        foreign_ports=frozenset(taken),
        foreign_targets=targets.foreign,
        reachable=targets.reachable,
        managed=certificates.managed,
        requests=certificates.requests,
        retries=certificates.retries,
        errors=(*(invalid if problems else ()), *certificates.errors),
        notices=(*told, *wishes.unsupported, *listeners.notices, *last),
    )
    if problems and actual is not None:
        return _as_it_is(known, actual, problems)
    return _composed(known, wishes, facts, (kind, place, certificates, listeners))


def _as_it_is(known: Desired, actual: LoadBalancer, problems: Collection[str]) -> Desired:
    """What is wrong leaves it alone; its nodes are followed all the same, unless it is not known which."""
    return replace(
        known,
        name=actual.name,
        labels=actual.labels,
        targets=None if _TARGET_KEYS.intersection(problems) else known.targets,
        foreign_ports=frozenset(one.listen_port for one in actual.services),
    )


def _composed(
    known: Desired,
    wishes: Wishes,
    facts: Facts,
    parts: tuple[TypeChoice, SiteChoice, CertificateChoice, ListenerChoice],
) -> Desired:
    kind, place, certificates, chosen = parts
    if facts.balancer is None and place.site == Site():
        text = (
            f"no location is known for the load balancer: annotate the Service with {PREFIX}location or "
            f"{PREFIX}network-zone, or set HCLOUD_LOAD_BALANCERS_LOCATION"
        )
        raise Rejected(text, notices=(Notice("LoadBalancerLocationMissing", text),))
    ports = {one.listen_port for one in chosen.listeners}
    unclear = frozenset[int]()
    if facts.balancer is not None and (known.errors or certificates.refused):
        present = {one.listen_port for one in facts.balancer.services}
        unclear = frozenset(present & wishes.ports.keys() - ports)
    settings = choose_settings(wishes, facts, kind.kept)
    annotated = labels_of_annotations(wishes, facts, kind.kept)
    labels = wanted_labels(wishes, facts, ports, annotated)
    # Had it stayed as it was, its checks would stay too; but it may become ours by this change.
    ours = bool(facts.marks.ours or wishes.share or facts.marks.shared or NAMESPACE in labels)
    return replace(
        known,
        name=settings.name,
        labels=labels,
        type=kind.type,
        algorithm=settings.algorithm,
        public=settings.public,
        network=place.network,
        private_ip=place.private_ip,
        ip_range=place.ip_range,
        listeners=with_checks(wishes.service, chosen, ours=ours),
        rdns=settings.rdns,
        protection=settings.protection,
        resets=settings.resets,
        foreign_ports=known.foreign_ports | unclear,
        site=place.site,
    )


def _not_adopted(wishes: Wishes, facts: Facts) -> Iterator[Notice]:
    actual = facts.balancer
    if actual is None or not wishes.adopt or wishes.adopt in (str(actual.id), actual.name):
        return
    if facts.leads and not facts.adopting and ADOPTED not in actual.labels:
        text = (
            f"{PREFIX}adopt: {wishes.adopt!r} is not adopted, because load balancer {actual.name} "
            f"({actual.id}) is this Service's; delete that to have the other adopted"
        )
        yield Notice("LoadBalancerNotAdopted", text)
