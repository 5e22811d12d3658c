"""Runs the steps of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from ccm.cloud import CloudError
from ccm.hetzner.load_balancers.apply.certificate_steps import (
    delete_certificates,
    request_certificate,
    retry_certificate,
)
from ccm.hetzner.load_balancers.apply.changes import change, leave
from ccm.hetzner.load_balancers.apply.creation import create, issued
from ccm.hetzner.load_balancers.apply.outcome import ApplyState, Outcome, RetryBudget
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


async def apply_plan(
    steps: Sequence[Step], before: Outcome, cache: SharedCache, retry_budget: RetryBudget
) -> Outcome:
    """Run the steps of a plan, one after the other.

    A step that fails keeps no other back but those that need it, and those that come last, until the retry
    budget is exhausted. Once the API has decided about something, changes wait for the next plan.

    Args:
        steps: The plan.
        before: What there is, and what came of former plans for the same Service.
        cache: Where what is done is seen from now on.
        retry_budget: How long others are waited for, in this plan and those before it.

    Raises:
        CloudError: The load balancer could not be made, or can't be looked at.
    """
    if before.observed.balancer is not None:
        cache.inventory.saw(before.observed.service, before.observed.balancer)
    state = ApplyState(
        cache, retry_budget, before.observed, [*before.steps], [*before.errors], [*before.notices]
    )
    changes = [one for one in steps if isinstance(one, Change)]
    for step in steps:
        if retry_budget.exhausted:
            break
        if isinstance(step, Change):
            await change(changes, state)
            changes = []
        elif not _waits(step, state):
            try:
                await _do(step, state)
            except CloudError as error:
                if isinstance(step, Create):
                    raise
                state.failed(error)
    return state.outcome()


def _waits(step: Step, state: ApplyState) -> bool:
    """Whether a step is not done now, since it needs what is not known yet or went wrong."""
    match step:
        case RequestCertificate():
            return False
        case Create():
            return issued(step, state) is None
        case _:
            return state.again or (step.last and bool(state.errors))


async def _do(step: Step, state: ApplyState) -> None:
    match step:
        case RetryCertificate():
            await retry_certificate(step, state)
        case RequestCertificate():
            await request_certificate(step, state)
        case DeleteCertificates():
            await delete_certificates(step, state)
        case Create():
            await create(step, state)
        case Release():
            await leave(step, state)
        case _:
            raise TypeError(f"no such step: {step!r}")
