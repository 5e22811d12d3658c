"""What a Service's load balancer should be, all things considered. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ccm.cloud import Notice, Rejected
from ccm.hetzner.load_balancers.annotations import PREFIX
from ccm.hetzner.load_balancers.desired.certificates import CertificateChoice, choose_certificates
from ccm.hetzner.load_balancers.desired.compose import compose, unchanged
from ccm.hetzner.load_balancers.desired.desired import Desired
from ccm.hetzner.load_balancers.desired.listeners import choose_listeners, foreign_ports
from ccm.hetzner.load_balancers.desired.site import choose_site
from ccm.hetzner.load_balancers.desired.targets import choose_targets
from ccm.hetzner.load_balancers.desired.type import choose_type
from ccm.hetzner.load_balancers.errors import InvalidAnnotations
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import ADOPTED
from ccm.hetzner.load_balancers.wishes import Wishes

# What is told of ports, where there are none that a load balancer could serve.
_UNSERVABLE = frozenset({"UnsupportedProtocolConfigured", "NodePortMissing", "IPFamilyUnsupported"})


def decide(wishes: Wishes, facts: Facts) -> Desired:
    """Decide what a Service's load balancer should be.

    What can't be understood or found now stays as it is, and the rest is done.

    Raises:
        InvalidAnnotations: There is no load balancer, and none is made for wrong annotations.
        AccessDenied: None is made in a project that has none of the servers.
        Rejected: Nothing says where to make one, or it would have no address.
    """
    actual = facts.balancer
    if actual is None and wishes.is_unservable and not (facts.others and wishes.problems):
        notices = (one for one in wishes.unsupported if one.reason in _UNSERVABLE)
        return Desired("", {}, exists=False, notices=tuple(notices))
    last = [*_not_adopted(wishes, facts)]
    kind, place = choose_type(wishes, facts), choose_site(wishes, facts)
    problems = {**wishes.problems, **kind.problems, **place.problems}
    certificates = CertificateChoice() if problems else choose_certificates(wishes, facts)
    taken = foreign_ports(wishes, facts)
    listeners = choose_listeners(wishes, facts, kind.limits, certificates.by_port, taken)
    # Whatever is wrong and whatever has no effect is told in one Event.
    complaints = [*problems.values(), *wishes.warnings.values()]
    invalid = [InvalidAnnotations(complaints)] if complaints else []
    if problems and actual is None:
        raise invalid[0]
    if actual is None and (why := wishes.why_no_address(network=facts.network is not None)):
        raise Rejected(why, notices=(Notice("LoadBalancerWithoutAddress", why),))
    targets = choose_targets(wishes, facts, kind.limits)
    told = [] if problems else [notice for error in invalid for notice in error.notices]
    told += [*kind.notices, *place.notices, *certificates.notices, *targets.notices]
    serving = {number for one in listeners.listeners if one.http for number in one.http.certificates}
    known = replace(
        targets,
        foreign_ports=frozenset(taken),
        managed=certificates.managed,
        requests={number: one for number, one in certificates.requests.items() if number in serving},
        retries=tuple(one for one in certificates.retries if one.id in serving),
        errors=(*(invalid if problems else ()), *certificates.errors),
        notices=(*told, *wishes.unsupported, *listeners.notices, *last),
    )
    if problems and actual is not None:
        return unchanged(known, actual, problems)
    return compose(known, wishes, facts, (kind, place, certificates, listeners))


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
