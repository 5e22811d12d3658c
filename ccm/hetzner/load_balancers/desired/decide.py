"""What a Service's load balancer should be, all things considered. Pure."""

from __future__ import annotations

from dataclasses import replace

from ccm.cloud import Notice, Rejected
from ccm.hetzner.load_balancers.desired.certificates import choose_certificates
from ccm.hetzner.load_balancers.desired.defaults import choose_settings
from ccm.hetzner.load_balancers.desired.desired import Desired, Site
from ccm.hetzner.load_balancers.desired.listeners import choose_listeners
from ccm.hetzner.load_balancers.desired.site import choose_site
from ccm.hetzner.load_balancers.desired.targets import choose_targets
from ccm.hetzner.load_balancers.desired.type import choose_type
from ccm.hetzner.load_balancers.desired.unknown import keep_unknown
from ccm.hetzner.load_balancers.errors import InvalidAnnotations
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.wishes import PREFIX, Wishes


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
    if facts.balancer is None and wishes.is_unservable and not (facts.others and wishes.problems):
        notices = (one for one in wishes.unsupported if one.reason == "UnsupportedProtocolConfigured")
        return Desired("", {}, exists=False, notices=tuple(notices))
    desired = choose_type(wishes, facts, Desired("", {}, problems=wishes.problems))
    desired = choose_site(wishes, facts, desired)
    if desired.problems or wishes.warnings:
        # Whatever is wrong and whatever has no effect is told in one Event.
        invalid = InvalidAnnotations([*desired.problems.values(), *wishes.warnings.values()])
        if desired.problems and facts.balancer is None:
            raise invalid
        if desired.problems:
            desired = replace(desired, errors=(invalid,))
        else:
            desired = replace(desired, notices=(*invalid.notices, *desired.notices))
    desired = choose_certificates(wishes, facts, desired)
    desired = choose_targets(wishes, facts, desired)
    desired = choose_listeners(wishes, facts, desired)
    desired = choose_settings(wishes, facts, desired)
    if facts.balancer is not None:
        return keep_unknown(wishes, facts.balancer, facts, desired)
    if desired.site == Site():
        text = (
            f"no location is known for the load balancer: annotate the Service with {PREFIX}location or "
            f"{PREFIX}network-zone, or set HCLOUD_LOAD_BALANCERS_LOCATION"
        )
        raise Rejected(text, notices=(Notice("LoadBalancerLocationMissing", text),))
    return desired
