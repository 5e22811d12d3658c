"""Has a Service leave a load balancer."""

from __future__ import annotations

from dataclasses import replace

from ccm.hetzner.api.errors import NotFound, RefusedProtected
from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.facts.inventory import PATH
from ccm.hetzner.load_balancers.plan.lifecycle import Release
from ccm.hetzner.load_balancers.plan.release import release
from ccm.hetzner.load_balancers.run.apply import apply
from ccm.hetzner.load_balancers.run.outcome import Work
from ccm.hetzner.load_balancers.run.requests import delete


async def leave(step: Release, work: Work) -> None:
    """Delete the load balancer, or leave it to others.

    Raises:
        CloudError: It is not done.
    """
    # Since it was planned, others may have come, to whom the load balancer is left then.
    balancer = work.views.inventory.balancers.contents.by_id.get(step.balancer.id, step.balancer)
    released = release(work.facts.service, balancer)
    if released is not None and not (released.deletes and await _delete(balancer, work)):
        applied = await apply(balancer, released.changes, work)
        if applied.errors:
            raise applied.errors[0][1]
        work.notices += released.notices
    work.views.servers.forget(balancer)
    work.released.append(balancer.id)
    others = tuple(one for one in work.facts.others if one.id != balancer.id)
    work.facts = replace(work.facts, others=others)


async def _delete(balancer: LoadBalancer, work: Work) -> bool:
    """Delete a load balancer; False = it is protected after all."""
    inventory = work.views.inventory
    try:
        await delete(inventory.api, f"{PATH}/{balancer.id}", sleep=inventory.sleep)
        work.steps.append(f"delete load balancer {balancer.name} ({balancer.id})")
    except NotFound:
        pass
    except RefusedProtected:
        return False
    inventory.balancers.remove(balancer.id)
    return True
