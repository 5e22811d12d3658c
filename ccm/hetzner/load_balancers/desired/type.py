"""Which type a load balancer should have, and whose limits hold until it has it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ccm.cloud import Notice
from ccm.hetzner.api.wire import LoadBalancerType
from ccm.hetzner.load_balancers.annotations import PREFIX
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import DEFAULT_TYPE
from ccm.hetzner.load_balancers.wishes import Wishes


@dataclass(frozen=True, slots=True)
class TypeChoice:
    """Which type.

    Attributes:
        limits: The one whose limits hold until it has the wanted one.
        type: The wanted one; None = it keeps its own.
        kept: What can't go back to its default yet.
        problems: What is wrong with annotations, by annotation.
    """

    limits: LoadBalancerType
    type: LoadBalancerType | None = None
    kept: frozenset[str] = frozenset()
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    notices: tuple[Notice, ...] = ()


def choose_type(wishes: Wishes, facts: Facts) -> TypeChoice:
    """Choose the type."""
    present = facts.balancer.load_balancer_type if facts.balancer else None
    name = wishes.type or DEFAULT_TYPE
    wanted = facts.types.get(name)
    if present is not None and not facts.types:
        return TypeChoice(present, notices=_deprecated(present, wishes))
    if wanted is None:
        annotated = PREFIX + "type" in wishes.service.annotations
        source = PREFIX + "type" if annotated else "HCLOUD_LOAD_BALANCERS_TYPE"
        problem = f"{source}: {name!r} is not one of {', '.join(sorted(facts.types))}"
        return TypeChoice(present or LoadBalancerType(), problems={PREFIX + "type": problem})
    if present is not None and not wishes.type and facts.balancer and not facts.balancer.fits(wanted):
        text = f"no type is configured any more, but {name} is too small for its ports or nodes: "
        notice = Notice("LoadBalancerTypeKept", f"{text}{present.name} stays")
        return TypeChoice(present, kept=frozenset({"type"}), notices=(notice,))
    return TypeChoice(wanted, wanted if facts.leads else None, notices=_deprecated(wanted, wishes))


def _deprecated(kind: LoadBalancerType, wishes: Wishes) -> tuple[Notice, ...]:
    end = kind.deprecation.unavailable_after if kind.deprecation else ""
    text = f"type {kind.name} of {wishes.service.key} is deprecated"
    text += f", and unavailable after {end}" if end else ""
    found = kind.deprecated or kind.deprecation
    return (Notice("LoadBalancerTypeDeprecated", text),) if found else ()
