"""From a load balancer as it is to one as it should be, in as few steps as possible.

The order keeps traffic flowing: what is new comes before what goes, as far as there is room; a target changes
from its public to its private address alone, while the others serve. A step names the steps without which it
makes no sense; all others are tried whatever happened before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ccm.hetzner.api.models import Certificate, LoadBalancer
from ccm.hetzner.load_balancers.desired import DesiredState
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.plan.lifecycle_steps import (
    NOTHING,
    DeleteCertificates,
    Release,
    RequestCertificate,
    RetryCertificate,
    create,
)
from ccm.hetzner.load_balancers.plan.listener_changes import change_listeners
from ccm.hetzner.load_balancers.plan.setting_changes import change_labels, change_settings, change_type
from ccm.hetzner.load_balancers.plan.steps import Change, Step
from ccm.hetzner.load_balancers.plan.target_changes import change_targets

_EARLY = frozenset({"change_type", "change_algorithm", "enable_public_interface"})


def plan(desired: DesiredState, observed: ObservedState) -> Sequence[Step]:
    """Plan how a Service's load balancer becomes what it should be.

    Certificates come first, for listeners need their ids; only once the load balancer is what it should be,
    certificates that it served with before are deleted, and the Service leaves where it was before.

    Returns:
        The steps, in order; none if there is no difference.
    """
    stays = desired.managed | observed.certificates.spared
    unused = _unused(desired, observed, stays)
    steps: list[Step] = [RetryCertificate(one) for one in desired.retries]
    steps += [RequestCertificate(asked) for asked in desired.requests.values()]
    if desired.exists or observed.balancer is not None:
        parts = changes(desired, observed.balancer or NOTHING)
        steps += parts if observed.balancer is not None else [create(desired, parts)]
    if desired.errors:
        return steps
    if unused:
        steps.append(DeleteCertificates(unused, stays))
    return [*steps, *(Release(one) for one in observed.others)]


def plan_release(observed: ObservedState) -> Sequence[Step]:
    """Plan how a Service that goes leaves its load balancers, and what else was made for it."""
    return [*(Release(one) for one in observed.others), DeleteCertificates()]


def _unused(
    desired: DesiredState, observed: ObservedState, stays: Collection[int]
) -> tuple[Certificate, ...]:
    """Managed certificates of the Service that nothing of it serves with any more."""
    kept = observed.balancer.services if observed.balancer else ()
    serving = [*desired.listeners, *(one for one in kept if one.listen_port in desired.foreign_ports)]
    used = {number for one in serving if one.http for number in one.http.certificates} | {*stays}
    return tuple(one for one in observed.certificates.ours if one.id not in used)


def changes(desired: DesiredState, actual: LoadBalancer) -> list[Change]:
    """The changes from actual to desired, in order; none if there is no difference."""
    removals, listeners = change_listeners(desired, actual)
    network, targets = change_targets(desired, actual)
    growth, shrinking = change_type(desired, actual, [*removals, *targets])
    settings = [*growth, *change_settings(desired, actual, targets)]
    resets = [one for one in settings if one.resets in desired.resets]
    others = [one for one in settings if one not in resets]
    labels, unlabelled = change_labels(desired, actual, resets, [*removals, *listeners])
    return [
        *resets,
        *labels,
        *(one for one in others if one.operation in _EARLY),
        *network,
        *removals,
        *listeners,
        *unlabelled,
        *targets,
        *shrinking,
        *(one for one in others if one.operation not in _EARLY),
    ]
