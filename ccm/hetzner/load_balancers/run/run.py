"""Runs the steps of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ccm.cloud import CloudError
from ccm.hetzner.load_balancers.plan.lifecycle import (
    Create,
    DeleteCertificates,
    Release,
    RequestCertificate,
    RetryCertificate,
)
from ccm.hetzner.load_balancers.plan.steps import Change, Step
from ccm.hetzner.load_balancers.run.apply import change
from ccm.hetzner.load_balancers.run.certificates import (
    delete_certificates,
    request_certificate,
    retry_certificate,
)
from ccm.hetzner.load_balancers.run.creation import create
from ccm.hetzner.load_balancers.run.outcome import Outcome
from ccm.hetzner.load_balancers.run.release import leave


async def run(steps: Sequence[Step], work: Outcome) -> None:
    """Run the steps of a plan, one after the other.

    A step that fails keeps no other back but those that need it, and those that come last.

    Args:
        steps: The plan.
        work: What there is, and what came of former plans for the same Service; what comes of this one is
            added.

    Raises:
        CloudError: The load balancer could not be made, or can't be looked at.
    """
    service, views = work.facts.service, work.views
    if work.facts.balancer is not None:
        views.inventory.saw(service, work.facts.balancer)
    work.again = False
    changes = [one for one in steps if isinstance(one, Change)]
    for step in steps:
        if isinstance(step, Change):
            await change(changes, work)
            changes = []
        elif not (work.again and not isinstance(step, RequestCertificate)) and not (
            step.last and work.errors
        ):
            try:
                await _do(step, work)
            except CloudError as error:
                if isinstance(step, Create):
                    raise
                work.errors.append(error)
    former = work.facts.certificates
    known = replace(views.certificates.known(service), error=former.error, requested=former.requested)
    work.facts = replace(work.facts, certificates=known)


async def _do(step: Step, work: Outcome) -> None:
    match step:
        case RetryCertificate():
            await retry_certificate(step, work)
        case RequestCertificate():
            await request_certificate(step, work)
        case DeleteCertificates():
            await delete_certificates(step, work)
        case Create():
            await create(step, work)
        case Release():
            await leave(step, work)
        case _:
            raise TypeError(f"no such step: {step!r}")
