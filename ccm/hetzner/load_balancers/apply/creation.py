"""Creates a load balancer with as many parts as possible in one request."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from ccm.cloud import ServiceView
from ccm.hetzner.api import HetznerApi, Priority, convert
from ccm.hetzner.api.api_errors import NotFound, Refused, unavailable
from ccm.hetzner.api.models import Action, LoadBalancer
from ccm.hetzner.load_balancers.apply.apply_state import ApplyState
from ccm.hetzner.load_balancers.cache import PATH, SharedCache
from ccm.hetzner.load_balancers.ownership_labels import SERVICE_UID, is_of_other_cluster
from ccm.hetzner.load_balancers.plan import Create, Json

CREATION_TIME = 3.3  # seconds that a creation usually takes; earlier polls would waste requests
# Errors that don't depend on the parts, so a request with fewer parts would fail, too.
_NOT_ABOUT_PARTS = frozenset(
    {
        "uniqueness_error",
        "resource_limit_exceeded",
        "resource_unavailable",
        "primary_ip_assigned",
        "primary_ip_datacenter_mismatch",
        "primary_ip_version_mismatch",
    }
)


class Created(msgspec.Struct, frozen=True):
    """The API's response."""

    load_balancer: LoadBalancer
    action: Action


async def _request(api: HetznerApi, bodies: Sequence[Json]) -> Created:
    """Send the requests until one isn't refused because of its parts. Doesn't wait for the action."""
    for body in bodies[:-1]:
        try:
            return await _post(api, body)
        except (Refused, NotFound) as error:
            if error.code in _NOT_ABOUT_PARTS:
                raise
    return await _post(api, bodies[-1])


async def _post(api: HetznerApi, body: Json) -> Created:
    answer = await api.request("POST", PATH, body=body, priority=Priority.LOAD_BALANCERS)
    return convert(answer, Created, f"POST {PATH}")


def issued(step: Create, state: ApplyState) -> Mapping[int, int] | None:
    """The IDs of requested certificates by placeholder number, or None if a request failed."""
    requested = state.observed.certificates.requested
    ids = {number: requested.get(asked) for number, asked in step.desired.requests.items()}
    known = {number: certificate_id for number, certificate_id in ids.items() if certificate_id is not None}
    return known if known.keys() == ids.keys() else None


def with_certificates(body: Json, ids: Mapping[int, int]) -> Json:
    """``body`` (unchanged itself) with ``ids`` for placeholder numbers; other numbers are IDs already."""

    def filled(service: Json) -> Json:
        http: Json = service.get("http", {})
        numbers: Sequence[int] = http.get("certificates", ())
        if not numbers:
            return service
        return {**service, "http": {**http, "certificates": [ids.get(number, number) for number in numbers]}}

    return {**body, "services": [filled(one) for one in body["services"]]} if "services" in body else body


async def create(step: Create, state: ApplyState) -> None:
    """Create a load balancer and wait. Raises Unavailable if the result is unknown, or another ApiError."""
    state.again = True
    ids = issued(step, state) or {}
    step = replace(step, bodies=tuple(with_certificates(body, ids) for body in step.bodies))
    balancer = await _create(step, state.observed.service, state.cache)
    state.cache.inventory.saw(state.observed.service, balancer)
    state.observed = state.observed.after(balancer)
    state.steps.append(str(step))


async def _create(step: Create, service: ServiceView, cache: SharedCache) -> LoadBalancer:
    inventory, desired = cache.inventory, step.desired
    try:
        created = await _request(inventory.api, step.bodies)
    except Refused as error:
        if error.code != "uniqueness_error":
            raise
        # The name is in use, maybe by our own earlier request whose response was lost.
        for one in await inventory.all(service, age=0.0):
            mine = one.labels.get(SERVICE_UID) == service.uid and not is_of_other_cluster(one, cache.cluster)
            if one.name == desired.name and mine:
                return one
        why = (
            f"the name {desired.name!r} is already used by a load balancer that doesn't belong to this "
            "Service"
        )
        raise unavailable(f"POST {PATH}", why) from error
    balancer = created.load_balancer
    inventory.balancers.put(balancer)  # immediately, so that a retry finds it
    cache.servers.remember(balancer, (target.identity for target in desired.targets or ()))
    if created.action.status == "running":
        await inventory.sleep(CREATION_TIME)
    await inventory.api.wait(created.action, priority=Priority.LOAD_BALANCERS)
    return await inventory.look(balancer.id) if desired.network is not None else balancer
