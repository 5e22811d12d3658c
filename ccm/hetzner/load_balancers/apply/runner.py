"""Applies the steps of a plan, one after the other.

If a step fails, only the steps that need it are skipped. A change is never sent again before its result is
read, except after the error "locked", which means that nothing changed.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ccm.cloud import AccessDenied, CloudError, QuotaExhausted
from ccm.hetzner.api import Priority
from ccm.hetzner.api.api_errors import ActionTimedOut, ApiError, RefusedProtected, TokenChanged, Unavailable
from ccm.hetzner.api.models import LoadBalancer
from ccm.hetzner.load_balancers.apply.apply_state import ApplyState
from ccm.hetzner.load_balancers.apply.certificate_steps import (
    delete_certificates,
    request_certificate,
    retry_certificate,
)
from ccm.hetzner.load_balancers.apply.creation import create, issued
from ccm.hetzner.load_balancers.cache import PATH
from ccm.hetzner.load_balancers.ownership_labels import ownership_of
from ccm.hetzner.load_balancers.plan import (
    Change,
    Create,
    DeleteCertificates,
    Key,
    Release,
    RequestCertificate,
    RetryCertificate,
    Step,
    release,
)
from ccm.hetzner.load_balancers.targets import Target

# Codes of the API for a change that we or other clients already made.
_DONE_ALREADY = {
    "add_target": {"target_already_defined"},
    "attach_to_network": {"load_balancer_already_attached"},
    # The deletion of a server removes it from load balancers. Or the load balancer itself is gone.
    "remove_target": {"not_found"},
}
# Errors that don't reveal the load balancer's state.
_SAYS_NOTHING = AccessDenied | QuotaExhausted | TokenChanged | Unavailable


@dataclass
class Applied:
    """The result of changes."""

    balancer: LoadBalancer  # the load balancer as it should be now
    # failed steps with their errors
    errors: list[tuple[str, CloudError]] = field(default_factory=list[tuple[str, CloudError]])
    reread: bool = False  # whether the load balancer must be read, because the API made a choice


async def change(steps: Sequence[Change], state: ApplyState) -> None:
    """Change the Service's load balancer. Raises CloudError if it can't be read afterwards."""
    balancer = state.observed.balancer
    if state.again or balancer is None or not steps:
        return
    applied = await apply_changes(balancer, steps, state)
    balancer = applied.balancer
    if applied.reread:
        balancer = await state.cache.inventory.look(balancer.id)
        state.again = not applied.errors
    state.observed = state.observed.after(balancer)
    state.errors += [_explained(text, error) for text, error in applied.errors]


async def apply_changes(balancer: LoadBalancer, steps: Sequence[Change], state: ApplyState) -> Applied:
    """Change a load balancer, and update the cache. Returns errors in the result."""
    applied = Applied(balancer)
    failed: set[Key] = set()
    waiting = deque(steps)
    while waiting:
        step = waiting.popleft()
        if step.needs & failed:
            failed.add(step.key)
            continue
        try:
            foreseen = await _send(balancer.id, step, state)
        except CloudError as error:
            failed.add(step.key)
            applied.errors.append((str(step), error))
            state.retry_budget.note(error)
            # After any other error, our data about the load balancer is wrong.
            applied.reread |= not isinstance(error, _SAYS_NOTHING)
            # A running action locks the load balancer, so the API would refuse other changes.
            if state.retry_budget.exhausted or isinstance(error, AccessDenied | ActionTimedOut):
                break
            if step.otherwise is not None:
                waiting.appendleft(step.otherwise)
            continue
        applied.balancer = step.effect(applied.balancer)
        state.steps.append(str(step))
        applied.reread = applied.reread or step.unforeseen or not foreseen
    state.cache.inventory.balancers.put(applied.balancer)
    added = [
        step.about.identity
        for step in steps
        if step.operation == "add_target" and isinstance(step.about, Target)
    ]
    state.cache.servers.remember(applied.balancer, added)
    return applied


async def _send(number: int, step: Change, state: ApplyState) -> bool:
    """Send a change; False = it was already done, so the load balancer must be read."""
    api, retry_budget, path = state.cache.inventory.api, state.retry_budget, f"{PATH}/{number}"
    priority = Priority.LOAD_BALANCERS
    if step.operation == "update":
        await retry_budget.send(lambda: api.request("PUT", path, body=step.body, priority=priority))
        return True
    path = f"{path}/actions/{step.operation}"
    try:
        action = await retry_budget.send(lambda: api.act(path, step.body, priority=priority))
    except ApiError as error:
        if error.code in _DONE_ALREADY.get(step.operation, ()):
            return False
        raise
    await api.wait(action, priority=priority)
    return True


async def _delete(balancer: LoadBalancer, state: ApplyState) -> bool:
    """Delete a load balancer; False = the API reports that it is protected."""
    try:
        if await state.delete(f"{PATH}/{balancer.id}"):
            state.steps.append(f"delete load balancer {balancer.name} ({balancer.id})")
    except RefusedProtected:
        return False
    state.cache.inventory.balancers.remove(balancer.id)
    return True


async def leave(step: Release, state: ApplyState) -> None:
    """Delete the load balancer, or leave it to other Services. Raises CloudError if the deletion fails."""
    # Since the plan, other Services may have started to use the load balancer.
    balancer = state.cache.inventory.balancers.contents.by_id.get(step.balancer.id, step.balancer)
    ownership = ownership_of(state.observed.service, balancer)
    released = release(state.observed.service, balancer, ownership, state.cache.cluster)
    if released is not None and not (released.deletes and await _delete(balancer, state)):
        applied = await apply_changes(balancer, released.changes, state)
        if applied.errors:
            state.errors.append(applied.errors[0][1])
            return
        state.notices += released.notices
    state.cache.servers.forget(balancer)
    state.released.append(balancer.id)
    others = tuple(other for other in state.observed.others if other.id != balancer.id)
    state.observed = replace(state.observed, others=others)


async def apply_plan(steps: Sequence[Step], state: ApplyState) -> None:
    """Run the steps of a plan, one after the other.

    A failed step stops only the steps that need it, and the last steps, until the retry budget is exhausted.
    After the API made a choice, changes wait for the next plan. Raises CloudError if the load balancer can't
    be created or read.
    """
    state.again = False
    changes: list[Change] = [one for one in steps if isinstance(one, Change)]
    for step in steps:
        if state.retry_budget.exhausted:
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
    former = state.observed.certificates
    known = state.cache.certificates.known(state.observed.service)
    known = replace(known, error=former.error, requested=former.requested)
    state.observed = replace(state.observed, certificates=known)


def _waits(step: Step, state: ApplyState) -> bool:
    """Whether to skip a step, because it depends on unknown results or failed steps."""
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


def _explained(step: str, error: CloudError) -> CloudError:
    """An error with the description of the failed step."""
    whole = CloudError(f"{step}: {error.message}", notices=error.notices)
    whole.__cause__ = error
    return whole
