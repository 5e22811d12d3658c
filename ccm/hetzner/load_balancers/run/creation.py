"""Makes a load balancer with as much of it as possible in one request."""

from __future__ import annotations

from typing import Any

import msgspec

from ccm.cloud import ServiceView
from ccm.hetzner.api import HetznerApi, Priority
from ccm.hetzner.api.errors import NotFound, Refused, unavailable
from ccm.hetzner.api.wire import Action, LoadBalancer
from ccm.hetzner.load_balancers.desired import Desired
from ccm.hetzner.load_balancers.facts import Views
from ccm.hetzner.load_balancers.facts.inventory import PATH
from ccm.hetzner.load_balancers.labels import placed_on
from ccm.hetzner.load_balancers.plan.lifecycle import creation_body

CREATION_TIME = 3.3  # seconds that Hetzner usually takes; asking earlier only costs requests
# Refusals of the load balancer itself: it would not help to leave anything out.
_NOT_ABOUT_PARTS = frozenset({"uniqueness_error", "resource_limit_exceeded", "resource_unavailable"})


class Created(msgspec.Struct, frozen=True):
    """The API's answer."""

    load_balancer: LoadBalancer
    action: Action


async def _request(api: HetznerApi, desired: Desired) -> Created:
    """Ask for a load balancer; returns before it is ready.

    If the request is refused because of a target or a service, it is made without them: whoever adds them one
    by one then learns which one it is.

    Raises:
        Unavailable: It may have been made all the same.
        ApiError: It was not made.
    """
    bodies = [creation_body(desired, desired.site)]
    if desired.targets:
        bodies.append(creation_body(desired, desired.site, targets=False))
    if desired.listeners:
        bodies.append(creation_body(desired, desired.site, targets=False, services=False))
    for body in bodies[:-1]:
        try:
            return await _post(api, body)
        except (Refused, NotFound) as error:
            if error.code in _NOT_ABOUT_PARTS:
                raise
    return await _post(api, bodies[-1])


async def _post(api: HetznerApi, body: dict[str, Any]) -> Created:
    answer = await api.change("POST", PATH, body, priority=Priority.LOAD_BALANCERS)
    try:
        return msgspec.convert(answer, Created)
    except msgspec.ValidationError as error:
        raise unavailable(f"POST {PATH}", f"the answer makes no sense: {error}") from None


async def create(desired: Desired, service: ServiceView, views: Views) -> LoadBalancer:
    """Make a load balancer and wait until it is ready.

    Args:
        desired: What it should be.
        service: For which Service.
        views: Where it is seen from now on.

    Raises:
        Unavailable: It may have been made all the same.
        ApiError: It was not made.
    """
    inventory = views.inventory
    try:
        created = await _request(inventory.api, desired)
    except Refused as error:
        if error.code != "uniqueness_error":
            raise
        # The name is taken: maybe by our own request of before, whose answer never came.
        made = placed_on(service, await inventory.all(service, age=0.0))
        if not made:
            why = f"the name {desired.name!r} is taken, but by no load balancer of this Service"
            raise unavailable(f"POST {PATH}", why) from error
        return made[0]
    balancer = created.load_balancer
    inventory.balancers.put(balancer)  # at once: whatever happens now, it is found again
    views.servers.remember(balancer, (one.identity for one in desired.targets or ()))
    if created.action.status == "running":
        await inventory.sleep(CREATION_TIME)
    await inventory.api.wait(created.action)
    return await inventory.look(balancer.id) if desired.network is not None else balancer
