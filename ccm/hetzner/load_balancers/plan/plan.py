"""The steps from what there is to what should be. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ccm.hetzner.api.wire import Certificate
from ccm.hetzner.load_balancers.desired import Desired
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.plan.changes import changes
from ccm.hetzner.load_balancers.plan.lifecycle import (
    NOTHING,
    DeleteCertificates,
    Release,
    RequestCertificate,
    RetryCertificate,
    create,
)
from ccm.hetzner.load_balancers.plan.steps import Step


def plan(desired: Desired, facts: Facts) -> Sequence[Step]:
    """Plan how a Service's load balancer becomes what it should be.

    Certificates come first, for listeners need their ids; only once the load balancer is what it should be,
    certificates that it served with before are deleted, and the Service leaves where it was before.

    Args:
        desired: What it should be.
        facts: What there is.

    Returns:
        The steps, in order; none if there is no difference.
    """
    stays = desired.managed | facts.certificates.spared
    unused = _unused(desired, facts, stays)
    steps: list[Step] = [RetryCertificate(one) for one in desired.retries]
    steps += [RequestCertificate(asked) for asked in desired.requests]
    if desired.exists or facts.balancer is not None:
        parts = changes(desired, facts.balancer or NOTHING)
        steps += parts if facts.balancer is not None else [create(desired, parts)]
    if desired.errors:
        return steps
    if unused:
        steps.append(DeleteCertificates(unused, stays))
    return [*steps, *(Release(one) for one in facts.others)]


def plan_release(facts: Facts) -> Sequence[Step]:
    """Plan how a Service that goes leaves its load balancers, and what else was made for it.

    Args:
        facts: What there is of it.
    """
    return [*(Release(one) for one in facts.others), DeleteCertificates()]


def _unused(desired: Desired, facts: Facts, stays: Collection[int]) -> tuple[Certificate, ...]:
    """Managed certificates of the Service that nothing of it serves with any more."""
    kept = facts.balancer.services if facts.balancer else ()
    serving = [*desired.listeners, *(one for one in kept if one.listen_port in desired.foreign_ports)]
    used = {number for one in serving if one.http for number in one.http.certificates} | {*stays}
    return tuple(one for one in facts.certificates.ours if one.id not in used)
