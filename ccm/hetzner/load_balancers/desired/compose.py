"""Puts together what a load balancer should be. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ccm.cloud import Notice, Rejected
from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.annotations import PREFIX
from ccm.hetzner.load_balancers.desired.certificates import CertificateChoice
from ccm.hetzner.load_balancers.desired.checks import with_checks
from ccm.hetzner.load_balancers.desired.defaults import choose_settings, labels_of_annotations
from ccm.hetzner.load_balancers.desired.desired import Desired, Site
from ccm.hetzner.load_balancers.desired.labels import wanted_labels
from ccm.hetzner.load_balancers.desired.listeners import ListenerChoice
from ccm.hetzner.load_balancers.desired.site import SiteChoice
from ccm.hetzner.load_balancers.desired.type import TypeChoice
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import NAMESPACE
from ccm.hetzner.load_balancers.wishes import Wishes

# Not even what is in them is known where they are too long: then their problem's key is the prefix alone.
_TARGET_KEYS = frozenset({PREFIX, PREFIX + "node-selector", PREFIX + "use-private-ip"})


def unchanged(known: Desired, actual: LoadBalancer, problems: Collection[str]) -> Desired:
    """What is wrong leaves it alone; its nodes are followed all the same, unless it is not known which."""
    return replace(
        known,
        name=actual.name,
        labels=actual.labels,
        targets=None if _TARGET_KEYS.intersection(problems) else known.targets,
        foreign_ports=frozenset(one.listen_port for one in actual.services),
    )


def compose(
    known: Desired,
    wishes: Wishes,
    facts: Facts,
    parts: tuple[TypeChoice, SiteChoice, CertificateChoice, ListenerChoice],
) -> Desired:
    """Put together what is chosen and what follows from it: settings, labels, health checks.

    There are no problems.

    Raises:
        Rejected: Nothing says where to make a load balancer.
    """
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
    known = choose_settings(known, wishes, facts, kind.kept)
    annotated = labels_of_annotations(wishes, facts, kind.kept)
    labels = wanted_labels(wishes, facts, ports, annotated)
    if NAMESPACE in labels and not facts.marks.ours:
        # It becomes ours by this write, which then has all that the next one would have.
        mine = replace(facts, marks=replace(facts.marks, ours=True))
        labels = wanted_labels(wishes, mine, ports, labels_of_annotations(wishes, mine, kind.kept))
    # Had it stayed as it was, its checks would stay too; but it may become ours by this change.
    ours = bool(facts.marks.ours or wishes.share or facts.marks.shared or NAMESPACE in labels)
    return replace(
        known,
        labels=labels,
        type=kind.type,
        network=place.network,
        private_ip=place.private_ip,
        ip_range=place.ip_range,
        listeners=with_checks(wishes.service, chosen, ours=ours),
        foreign_ports=known.foreign_ports | unclear,
        site=place.site,
        primary_ips=place.primary_ips,
    )
