"""Runs the steps of a plan, and tells what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ccm.cloud import CloudError, Notice
from ccm.hetzner.api.errors import NotFound, RefusedProtected
from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.errors import explained
from ccm.hetzner.load_balancers.facts import Facts, Views
from ccm.hetzner.load_balancers.facts.inventory import PATH
from ccm.hetzner.load_balancers.labels import certificates_of, placed_on
from ccm.hetzner.load_balancers.plan.lifecycle import (
    Create,
    DeleteCertificates,
    Release,
    RequestCertificate,
    RetryCertificate,
)
from ccm.hetzner.load_balancers.plan.release import release
from ccm.hetzner.load_balancers.plan.steps import Change, Step
from ccm.hetzner.load_balancers.run.apply import Applied, apply
from ccm.hetzner.load_balancers.run.certificates import (
    delete_certificates,
    request_certificate,
    retry_certificate,
)
from ccm.hetzner.load_balancers.run.creation import create
from ccm.hetzner.load_balancers.run.requests import delete


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a plan, and of those before it.

    Attributes:
        facts: What there is now.
        steps: What was done.
        errors: What was not, and why.
        notices: What the owner should know.
        again: Whether the API has decided about something, so that the rest has to be planned anew.
    """

    facts: Facts
    steps: tuple[str, ...] = ()
    errors: tuple[CloudError, ...] = ()
    notices: tuple[Notice, ...] = ()
    again: bool = False


async def run(steps: Sequence[Step], before: Outcome, views: Views) -> Outcome:
    """Run the steps of a plan, one after the other.

    A step that fails keeps no other back but those that need it, and those that come last.

    Args:
        steps: The plan.
        before: What there is, and what came of former plans for the same Service.
        views: Where what is done is seen from now on.

    Raises:
        CloudError: The load balancer could not be made, or can't be looked at.
    """
    if before.facts.balancer is not None:
        views.inventory.saw(before.facts.service, before.facts.balancer)
    work = _Work(before, views)
    changes = [one for one in steps if isinstance(one, Change)]
    for step in steps:
        if not isinstance(step, Change):
            await work.do(step)
        elif changes:
            await work.change(changes)
            changes = []
    return work.outcome()


class _Work:
    """What came of the steps so far."""

    def __init__(self, before: Outcome, views: Views) -> None:
        self._views = views
        self._facts = before.facts
        self._steps = list(before.steps)
        self._errors = list(before.errors)
        self._notices = list(before.notices)
        self._released: list[int] = []
        self._again = False

    def outcome(self) -> Outcome:
        """The result."""
        former = self._facts.certificates
        known = replace(self._views.certificates.known(), error=former.error, requested=former.requested)
        return Outcome(
            replace(self._facts, certificates=known),
            tuple(self._steps),
            tuple(self._errors),
            tuple(self._notices),
            self._again,
        )

    async def change(self, steps: Sequence[Change]) -> None:
        """Change the load balancer."""
        if self._again or self._facts.balancer is None:
            return
        applied = await self._apply(self._facts.balancer, steps)
        balancer = applied.balancer
        if applied.reread:
            balancer = await self._views.inventory.look(balancer.id)
            self._again = not applied.errors
        self._facts = self._facts.after(balancer)
        self._errors += [explained(text, error) for text, error in applied.errors]

    async def do(self, step: Step) -> None:
        """Do any other step, unless it has to wait."""
        if (self._again and not isinstance(step, RequestCertificate)) or (step.last and self._errors):
            return
        try:
            match step:
                case RetryCertificate():
                    await retry_certificate(step.certificate, self._views)
                    self._steps.append(str(step))
                case RequestCertificate():
                    await self._request(step)
                case Create():
                    await self._create(step)
                case DeleteCertificates():
                    await self._delete_certificates(step)
                case Release():
                    await self._release(step)
                case _:
                    raise TypeError(f"no such step: {step!r}")
        except CloudError as error:
            if isinstance(step, Create):
                raise
            self._errors.append(error)

    async def _apply(self, balancer: LoadBalancer, steps: Sequence[Change]) -> Applied:
        inventory = self._views.inventory
        applied = await apply(inventory.api, balancer, steps, sleep=inventory.sleep)
        inventory.balancers.put(applied.balancer)
        added = [one.target.identity for one in steps if one.operation == "add_target"]
        self._views.servers.remember(applied.balancer, added)
        self._steps += applied.steps
        return applied

    async def _request(self, step: RequestCertificate) -> None:
        self._again, number = True, None
        try:
            number = await request_certificate(step.asked, self._facts.service, self._views)
            self._steps.append(str(step))
        finally:
            former = self._facts.certificates
            requested = {**former.requested, step.asked: number}
            self._facts = replace(self._facts, certificates=replace(former, requested=requested))

    async def _create(self, step: Create) -> None:
        self._again = True
        balancer = await create(step, self._facts.service, self._views)
        self._views.inventory.saw(self._facts.service, balancer)
        self._facts = self._facts.after(balancer)
        self._steps.append(str(step))

    async def _delete_certificates(self, step: DeleteCertificates) -> None:
        there, balancer = self._views.inventory.balancers.contents.by_id, self._facts.balancer
        left = {number: certificates_of(there.get(number)) for number in self._released}
        stays = step.used | certificates_of(balancer)
        if balancer is not None:
            left[balancer.id] = stays
        deleted = await delete_certificates(self._facts.service, stays, left, self._views)
        self._steps += deleted.steps
        self._errors += deleted.errors
        self._notices += deleted.notices

    async def _release(self, step: Release) -> None:
        # Since it was planned, others may have come, to whom the load balancer is left then.
        there, service = self._views.inventory.balancers.contents.by_id, self._facts.service
        balancer = there.get(step.balancer.id, step.balancer)
        released = release(service, balancer)
        if placed_on(service, (balancer,)) and not (released.deletes and await self._delete(balancer)):
            applied = await self._apply(balancer, released.changes)
            if applied.errors:
                raise applied.errors[0][1]
            self._notices += released.notices
        self._views.servers.forget(balancer)
        self._released.append(balancer.id)
        others = tuple(one for one in self._facts.others if one.id != balancer.id)
        self._facts = replace(self._facts, others=others)

    async def _delete(self, balancer: LoadBalancer) -> bool:
        """Delete a load balancer; False = it is protected after all."""
        inventory = self._views.inventory
        try:
            await delete(inventory.api, f"{PATH}/{balancer.id}", sleep=inventory.sleep)
            self._steps.append(f"delete load balancer {balancer.name} ({balancer.id})")
        except NotFound:
            pass
        except RefusedProtected:
            return False
        inventory.balancers.remove(balancer.id)
        return True
