"""The steps from what there is to what should be. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ccm.hetzner.load_balancers.desired import Desired
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.plan.changes import changes
from ccm.hetzner.load_balancers.plan.lifecycle import (
    Create,
    DeleteCertificates,
    RequestCertificate,
    RetryCertificate,
)
from ccm.hetzner.load_balancers.plan.release import release
from ccm.hetzner.load_balancers.plan.steps import Planned, Step


def plan(desired: Desired, facts: Facts) -> Sequence[Planned[Step]]:
    """Plan how a Service's load balancer becomes what it should be.

    Certificates come first, for listeners need their ids; only once the load balancer is what it should be,
    certificates that it served with before are deleted, and the Service leaves where it was before.

    Args:
        desired: What it should be.
        facts: What there is.

    Returns:
        The steps, in order; none if there is no difference.
    """
    steps: list[Planned[Step]] = [Planned(RetryCertificate(one)) for one in desired.retries]
    steps += [Planned(RequestCertificate(asked)) for asked in desired.requests]
    if desired.exists and facts.balancer is None:
        steps.append(Planned(Create(desired)))
    elif facts.balancer is not None:
        steps += changes(desired, facts.balancer)
    if desired.errors:
        return steps
    if desired.unused:
        steps.append(
            Planned(DeleteCertificates(desired.unused, desired.certificates | facts.certificates.spared))
        )
    return [*steps, *(Planned(release(facts.service, one)) for one in facts.others)]


def plan_release(facts: Facts) -> Sequence[Planned[Step]]:
    """Plan how a Service that goes leaves its load balancers, and what else was made for it.

    Args:
        facts: What there is of it.
    """
    return [*(Planned(release(facts.service, one)) for one in facts.others), Planned(DeleteCertificates())]
