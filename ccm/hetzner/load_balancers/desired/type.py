"""Which type a load balancer should have, and whose limits hold until it has it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ccm.cloud import Notice
from ccm.hetzner.api.wire import LoadBalancer, LoadBalancerType
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import DEFAULT_TYPE
from ccm.hetzner.load_balancers.wishes import PREFIX, Wishes


@dataclass(frozen=True)
class TypeChoice:
    """A type.

    Attributes:
        wanted: The type; None = leave it.
        limits: The type whose limits hold.
        kept: ``type``, if it can't go back to the default.
        problem: What is wrong with the type that is asked for.
        notices: What the owner should know.
    """

    wanted: LoadBalancerType | None
    limits: LoadBalancerType
    kept: frozenset[str] = frozenset()
    problem: str = ""
    notices: tuple[Notice, ...] = ()


def choose_type(wishes: Wishes, facts: Facts) -> TypeChoice:
    """Choose the type of a Service's load balancer.

    Args:
        wishes: What the Service asks for.
        facts: What there is.
    """
    present = facts.balancer.load_balancer_type if facts.balancer else None
    if present is not None and not facts.types:
        return TypeChoice(None, present, notices=_deprecated(present, wishes))
    name = wishes.type or DEFAULT_TYPE
    wanted = facts.types.get(name)
    if wanted is None:
        annotated = PREFIX + "type" in wishes.service.annotations
        source = PREFIX + "type" if annotated else "HCLOUD_LOAD_BALANCERS_TYPE"
        problem = f"{source}: {name!r} is not one of {', '.join(sorted(facts.types))}"
        return TypeChoice(None, present or LoadBalancerType(), problem=problem)
    if not wishes.type and facts.balancer is not None and not fits(wanted, facts.balancer):
        now = facts.balancer.load_balancer_type
        text = f"no type is configured any more, but {name} is too small for its ports or nodes: {now.name} "
        notice = Notice("LoadBalancerTypeKept", text + "stays")
        return TypeChoice(None, now, frozenset({"type"}), notices=(notice,))
    return TypeChoice(wanted, wanted, notices=_deprecated(wanted, wishes))


def fits(kind: LoadBalancerType, actual: LoadBalancer) -> bool:
    """Whether a load balancer as it is could have this type."""
    return kind.max_targets >= len(actual.targets) and kind.max_services >= len(actual.services)


def _deprecated(kind: LoadBalancerType, wishes: Wishes) -> tuple[Notice, ...]:
    text = f"type {kind.name} of {wishes.service.key} is deprecated"
    return (Notice("LoadBalancerTypeDeprecated", text),) if kind.deprecated else ()
