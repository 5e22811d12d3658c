"""Takes a load balancer from a Service: what was made for it is deleted, what others use is left to them."""

from __future__ import annotations

from dataclasses import replace

from ccm.cloud import Notice, ServiceView
from ccm.hetzner.api.errors import NotFound, RefusedProtected
from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.desire import released
from ccm.hetzner.load_balancers.inventory import Inventory
from ccm.hetzner.load_balancers.ownership import ADOPTED, SERVICE_UID, labels_after, ports_by_label
from ccm.hetzner.load_balancers.plan import Desired, plan


async def retire(
    inventory: Inventory, service: ServiceView, balancer: LoadBalancer
) -> tuple[list[str], list[Notice]]:
    """Take it away.

    Returns:
        What was done, and what the owner should know.

    Raises:
        CloudError: something is left.
    """
    name = f"load balancer {balancer.name} ({balancer.id})"
    owners = ports_by_label(balancer)
    others = set(owners.values()) - {service.uid}
    foreign = bool(owners) and any(one.listen_port not in owners for one in balancer.services)
    leads = balancer.labels.get(SERVICE_UID) == service.uid
    if not leads or others or foreign or ADOPTED in balancer.labels:
        mine = [port for port, uid in owners.items() if uid == service.uid]
        ports = mine if owners else [one.listen_port for one in balancer.services]
        rest = released(labels_after(service, balancer), balancer, ports, targets=leads and not owners)
        steps = await _release(inventory, balancer, rest)
        why = "others use it" if foreign else "it was not made for this Service"
        text = f"{name} stays, because {why}"
        return steps, [] if others else [Notice("LoadBalancerReleased", text, warning=False)]
    try:
        if not balancer.protection.delete:
            await inventory.delete(balancer)
            return [f"delete {name}"], []
    except NotFound:
        return [], []
    except RefusedProtected:
        pass
    rest = released(labels_after(service, balancer), balancer, (), targets=False)
    steps = await _release(inventory, balancer, rest)
    text = f"{name} stays because it is protected against deletion; delete it yourself when you want to"
    return steps, [Notice("LoadBalancerProtected", text)]


async def _release(inventory: Inventory, balancer: LoadBalancer, rest: Desired) -> list[str]:
    """Labels go last: as long as they are there, what fails now is found again."""
    steps: list[str] = []
    for desired in (replace(rest, labels=balancer.labels), rest):
        applied = await inventory.apply(balancer, plan(desired, balancer))
        if applied.errors:
            raise applied.errors[0][1]
        balancer = applied.balancer
        steps += applied.steps
    return steps
