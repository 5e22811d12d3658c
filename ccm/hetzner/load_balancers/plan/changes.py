"""From a load balancer as it is to one as it should be, in as few changes as possible. Pure.

The order keeps traffic flowing: what is new comes before what goes, as far as there is room; a target changes
from its public to its private address alone, while the others serve. A step names the steps without which it
makes no sense; all others are tried whatever happened before.
"""

from __future__ import annotations

from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.desired import Desired
from ccm.hetzner.load_balancers.plan.labels import change_labels
from ccm.hetzner.load_balancers.plan.listeners import change_listeners
from ccm.hetzner.load_balancers.plan.settings import change_settings, change_type
from ccm.hetzner.load_balancers.plan.steps import Change
from ccm.hetzner.load_balancers.plan.targets import change_targets

_EARLY = frozenset({"change_type", "change_algorithm", "enable_public_interface"})


def changes(desired: Desired, actual: LoadBalancer) -> list[Change]:
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
