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


async def run(steps: Sequence[Step], outcome: Outcome) -> None:
    """Run the steps of a plan, one after the other.

    A step that fails keeps no other back but those that need it, and those that come last.

    Args:
        steps: The plan.
        outcome: What there is, and what came of former plans for the same Service; what comes of this one is
            added.

    Raises:
        CloudError: The load balancer could not be made, or can't be looked at.
    """
    service, views = outcome.facts.service, outcome.views
    if outcome.facts.balancer is not None:
        views.inventory.saw(service, outcome.facts.balancer)
    outcome.again = False
    changes = [one for one in steps if isinstance(one, Change)]
    for step in steps:
        if isinstance(step, Change):
            await change(changes, outcome)
            changes = []
        elif not (outcome.again and not isinstance(step, RequestCertificate)) and not (
            step.last and outcome.errors
        ):
            try:
                await _do(step, outcome)
            except CloudError as error:
                if isinstance(step, Create):
                    raise
                outcome.errors.append(error)
    former = outcome.facts.certificates
    known = replace(views.certificates.known(service), error=former.error, requested=former.requested)
    outcome.facts = replace(outcome.facts, certificates=known)


async def _do(step: Step, outcome: Outcome) -> None:
    match step:
        case RetryCertificate():
            await retry_certificate(step, outcome)
        case RequestCertificate():
            await request_certificate(step, outcome)
        case DeleteCertificates():
            await delete_certificates(step, outcome)
        case Create():
            await create(step, outcome)
        case Release():
            await leave(step, outcome)
        case _:
            raise TypeError(f"no such step: {step!r}")
