"""Which type a load balancer should have, and whose limits hold until it has it. Pure."""

from __future__ import annotations

from dataclasses import replace

from ccm.cloud import Notice
from ccm.hetzner.api.wire import LoadBalancer, LoadBalancerType
from ccm.hetzner.load_balancers.desired.desired import Desired
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import DEFAULT_TYPE
from ccm.hetzner.load_balancers.wishes import PREFIX, Wishes


def choose_type(wishes: Wishes, facts: Facts, desired: Desired) -> Desired:
    """Choose the type."""
    present = facts.balancer.load_balancer_type if facts.balancer else None
    name = wishes.type or DEFAULT_TYPE
    wanted = facts.types.get(name)
    if present is not None and not facts.types:
        desired = replace(desired, limits=present)
    elif wanted is None:
        annotated = PREFIX + "type" in wishes.service.annotations
        source = PREFIX + "type" if annotated else "HCLOUD_LOAD_BALANCERS_TYPE"
        problem = f"{source}: {name!r} is not one of {', '.join(sorted(facts.types))}"
        problems = {**desired.problems, PREFIX + "type": problem}
        return replace(desired, limits=present or desired.limits, problems=problems)
    elif present is not None and not wishes.type and facts.balancer and not fits(wanted, facts.balancer):
        text = f"no type is configured any more, but {name} is too small for its ports or nodes: "
        notice = Notice("LoadBalancerTypeKept", f"{text}{present.name} stays")
        kept = frozenset({"type"})
        return replace(desired, limits=present, kept=kept, notices=(*desired.notices, notice))
    else:
        desired = replace(desired, type=wanted if facts.leads else None, limits=wanted)
    if desired.limits.deprecated:
        text = f"type {desired.limits.name} of {wishes.service.key} is deprecated"
        notice = Notice("LoadBalancerTypeDeprecated", text)
        desired = replace(desired, notices=(*desired.notices, notice))
    return desired


def fits(kind: LoadBalancerType, actual: LoadBalancer) -> bool:
    """Whether a load balancer as it is could have this type."""
    return kind.max_targets >= len(actual.targets) and kind.max_services >= len(actual.services)
