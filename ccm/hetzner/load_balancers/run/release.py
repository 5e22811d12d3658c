"""Has a Service leave a load balancer."""

from __future__ import annotations

from dataclasses import replace

from ccm.hetzner.load_balancers.labels import marks_of
from ccm.hetzner.load_balancers.plan import Release, release
from ccm.hetzner.load_balancers.run.apply import apply, delete
from ccm.hetzner.load_balancers.run.outcome import Work


async def leave(step: Release, work: Work) -> None:
    """Delete the load balancer, or leave it to others.

    Raises:
        CloudError: It is not done.
    """
    # Since it was planned, others may have come, to whom the load balancer is left then.
    balancer = work.views.inventory.balancers.contents.by_id.get(step.balancer.id, step.balancer)
    marks = marks_of(work.facts.service, balancer)
    released = release(work.facts.service, balancer, marks)
    if released is not None and not (released.deletes and await delete(balancer, work)):
        applied = await apply(balancer, released.changes, work)
        if applied.errors:
            raise applied.errors[0][1]
        work.notices += released.notices
    work.views.servers.forget(balancer)
    work.released.append(balancer.id)
    others = tuple(one for one in work.facts.others if one.id != balancer.id)
    work.facts = replace(work.facts, others=others)
