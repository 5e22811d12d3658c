"""Runs the steps of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from ccm.cloud import CloudError
from ccm.hetzner.load_balancers.cache import SharedCache
from ccm.hetzner.load_balancers.plan import (
    Change,
    Create,
    DeleteCertificates,
    Release,
    RequestCertificate,
    RetryCertificate,
    Step,
)
from ccm.hetzner.load_balancers.run.apply import change, leave
from ccm.hetzner.load_balancers.run.certificates import (
    delete_certificates,
    request_certificate,
    retry_certificate,
)
from ccm.hetzner.load_balancers.run.creation import create, issued
from ccm.hetzner.load_balancers.run.outcome import Outcome, Patience, Work


async def run(steps: Sequence[Step], before: Outcome, cache: SharedCache, patience: Patience) -> Outcome:
    """Run the steps of a plan, one after the other.

    A step that fails keeps no other back but those that need it, and those that come last, until patience is
    over. Once the API has decided about something, changes wait for the next plan.

    Args:
        steps: The plan.
        before: What there is, and what came of former plans for the same Service.
        cache: Where what is done is seen from now on.
        patience: How long others are waited for, in this plan and those before it.

    Raises:
        CloudError: The load balancer could not be made, or can't be looked at.
    """
    if before.observed.balancer is not None:
        cache.inventory.saw(before.observed.service, before.observed.balancer)
    work = Work(cache, patience, before.observed, [*before.steps], [*before.errors], [*before.notices])
    changes = [one for one in steps if isinstance(one, Change)]
    for step in steps:
        if patience.over:
            break
        if isinstance(step, Change):
            await change(changes, work)
            changes = []
        elif not _waits(step, work):
            try:
                await _do(step, work)
            except CloudError as error:
                if isinstance(step, Create):
                    raise
                work.failed(error)
    return work.outcome()


def _waits(step: Step, work: Work) -> bool:
    """Whether a step is not done now, since it needs what is not known yet or went wrong."""
    match step:
        case RequestCertificate():
            return False
        case Create():
            return issued(step, work) is None
        case _:
            return work.again or (step.last and bool(work.errors))


async def _do(step: Step, work: Work) -> None:
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
