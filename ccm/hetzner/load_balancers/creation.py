"""Makes a load balancer with as much of it as possible in one request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from ccm.hetzner.api import HetznerApi, Priority
from ccm.hetzner.api.errors import NotFound, Refused, unavailable
from ccm.hetzner.api.wire import Action, LoadBalancer, Server
from ccm.hetzner.load_balancers.plan import Desired
from ccm.hetzner.load_balancers.steps import service_body, target_body

PATH = "/load_balancers"
# Refusals of the load balancer itself: it would not help to leave anything out.
_NOT_ABOUT_PARTS = frozenset({"uniqueness_error", "resource_limit_exceeded", "resource_unavailable"})


@dataclass(frozen=True)
class Site:
    """Where a load balancer is made: in a location, or anywhere in a network zone."""

    location: str = ""
    network_zone: str = ""

    def __str__(self) -> str:
        return f"in {self.location or self.network_zone}"


class Created(msgspec.Struct, frozen=True):
    """The API's answer."""

    load_balancer: LoadBalancer
    action: Action


def site_near(servers: Iterable[Server]) -> Site:
    """The network zone in which most servers are."""
    zones = Counter(server.location.network_zone for server in servers if server.location.network_zone)
    return Site(network_zone=min(zones, key=lambda zone: (-zones[zone], zone))) if zones else Site()


def creation_body(
    desired: Desired, site: Site, *, targets: bool = True, services: bool = True
) -> dict[str, Any]:
    """The request for a new load balancer. Pure.

    Args:
        desired: What it should be; its type must be known.
        site: Where.
        targets: Whether to name the targets at once.
        services: Whether to name the services at once.
    """
    # An address, or a range for it, can only be asked for when attaching.
    network = desired.network if not (desired.private_ip or desired.ip_range) else None
    inline = [
        target_body(one)
        for one in desired.targets or ()
        if (network is not None if one.private or one.ip else desired.public is not False)
    ]
    body: dict[str, Any] = {
        "name": desired.name,
        "load_balancer_type": desired.type.name if desired.type else "",
        "algorithm": {"type": desired.algorithm or "round_robin"},
        "labels": dict(desired.labels),
        "public_interface": desired.public is not False,
        "services": [service_body(one) for one in desired.listeners] if services else [],
        "targets": inline if targets else [],
        "location": site.location,
        "network_zone": site.network_zone,
        "network": network,
    }
    return {key: value for key, value in body.items() if value not in ("", None, [])}


async def create(api: HetznerApi, desired: Desired, site: Site) -> Created:
    """Make a load balancer; returns before it is ready.

    If the request is refused because of a target or a service, it is made without them: whoever adds them one
    by one then learns which one it is.

    Raises:
        Unavailable: it may have been made all the same.
        ApiError: it was not made.
    """
    bodies = [creation_body(desired, site)]
    if desired.targets:
        bodies.append(creation_body(desired, site, targets=False))
    if desired.listeners:
        bodies.append(creation_body(desired, site, targets=False, services=False))
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
