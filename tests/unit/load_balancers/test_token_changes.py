"""The token is another project's for some of the requests of one piece of work, whichever these are.

That project answers as well, and has nothing of ours. Whatever a piece of work finds out between two tokens,
it may fail; but what it says that it did is true, and in the end nothing is orphaned, doubled or forgotten.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Any

import emulated_cloud
import pytest
from aiohttp import web
from balancer_site import BalancerSite, number, targets, view
from emulated_cloud import OTHER_TOKEN, TOKEN

from ccm.cloud import (
    AccessDenied,
    CloudError,
    CloudUnavailable,
    InstanceNotFound,
    NodeView,
    Route,
    ServiceView,
)
from ccm.hetzner.api import Priority
from ccm.hetzner.api.api_errors import TokenChanged
from ccm.hetzner.api.models import Certificate, LoadBalancer

MANAGED = {
    "protocol": "https",
    "certificate-type": "managed",
    "http-managed-certificate-domains": "shop.example.com",
}
SERVICE = view("web", 443, annotations=MANAGED)
FOREVER = 1000  # looks at the token
NETWORKS = (True, pytest.param(False, marks=pytest.mark.nightly))


@dataclass
class Tokens:
    """Gives our token, but for some looks the other project's."""

    first: int
    count: int
    looks: int = 0

    def __call__(self) -> str:
        self.looks += 1
        return OTHER_TOKEN if self.first <= self.looks < self.first + self.count else TOKEN


async def everywhere(
    site: BalancerSite, work: Callable[[], Awaitable[Any]]
) -> AsyncIterator[tuple[str, Exception | None]]:
    """Let the token change before each look at it, and back after each later one; yield what came of it.

    The token is ours again, and known for it, when a result is handed out.
    """
    first = 0
    tokens = Tokens(FOREVER, 0)
    while first <= tokens.looks:
        first += 1
        for count in (1, 2, FOREVER):
            tokens = Tokens(first, count)
            site.cloud.api.token.read = tokens
            error = None
            try:
                await work()
            except CloudError as failed:
                error = failed
            site.cloud.api.token.read = lambda: TOKEN
            for node in site.nodes:
                await site.cloud.instances.get(node, accepted_age=0)
            yield f"the other token from look {first} of {tokens.looks} for {count}", error


async def left(site: BalancerSite, token: str = TOKEN) -> tuple[int, int]:
    """How many load balancers and certificates there are."""
    api = site.sky.api(token=token)
    balancers = await api.list("/load_balancers", "load_balancers", LoadBalancer, priority=Priority.SWEEP)
    certificates = await api.list("/certificates", "certificates", Certificate, priority=Priority.SWEEP)
    await api.close()
    return len(balancers.items), len(certificates.items)


async def made(site: BalancerSite, service: ServiceView = SERVICE) -> ServiceView:
    """The Service with its load balancer, as it stands in its status."""
    return replace(service, addresses=tuple(entry.ip for entry in (await site.ensure(service)).ingress))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("remembered", ["in the process", "in the status", "nowhere"])
async def test_a_service_that_went_leaves_nothing(
    site: BalancerSite, remembered: str, *, network: bool
) -> None:
    await site.add_nodes("a")
    await site.restart(network=network)
    service = await made(site)

    async def work() -> None:
        await site.balancers.delete(service)

    async for when, error in everywhere(site, work):
        if error is None:
            assert await left(site) == (0, 0), when
        await site.balancers.delete(service)
        assert await left(site) == (0, 0), when
        service = await made(site)
        if remembered != "in the process":
            site.balancers.inventory.forget(service)
        if remembered == "nowhere":
            service = replace(service, addresses=())


@pytest.mark.parametrize("network", NETWORKS)
async def test_a_deleted_service_leaves_no_certificate(site: BalancerSite, *, network: bool) -> None:
    """As after a load balancer that could not be made."""
    await site.add_nodes("a")
    await site.restart(network=network)

    async def work() -> None:
        await site.balancers.delete(SERVICE)

    async for when, error in everywhere(site, work):
        if error is None:
            assert await left(site) == (0, 0), when
        await site.balancers.delete(SERVICE)
        assert await left(site) == (0, 0), when
        await site.sky.fault(method="POST", path="/load_balancers", code="resource_limit_exceeded", times=1)
        with pytest.raises(CloudError):
            await site.ensure(SERVICE)
        assert await left(site) == (0, 1)


@pytest.mark.parametrize("nodes", [0, 1])
@pytest.mark.parametrize("network", NETWORKS)
async def test_one_is_made_and_none_in_another_project(
    site: BalancerSite, nodes: int, *, network: bool
) -> None:
    await site.add_nodes("a")
    await site.restart(network=network)
    service = SERVICE

    async def work() -> None:
        await site.ensure(service, site.nodes[:nodes])

    async for when, error in everywhere(site, work):
        if error is None:
            assert await left(site) == (1, 1), when
        await site.ensure(service, site.nodes[:nodes])
        assert await left(site) == (1, 1), when
        assert await left(site, OTHER_TOKEN) == (0, 0), when
        await site.balancers.delete(service)


@pytest.mark.parametrize("network", NETWORKS)
async def test_what_is_there_stays_the_services_own(site: BalancerSite, *, network: bool) -> None:
    await site.add_nodes("a")
    await site.restart(network=network)
    service = await made(site)
    before = await site.one()

    async def work() -> None:
        site.balancers.inventory.invalid.add(service.uid)
        site.balancers.certificates.invalidate()
        await site.ensure(service)

    async for when, _ in everywhere(site, work):
        assert await site.one() == before, when
        assert await left(site, OTHER_TOKEN) == (0, 0), when
        assert [*site.balancers.inventory.served] == [service.uid], when


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("by_id", [True, False], ids=["by its id", "by its name"])
async def test_an_existing_server_is_never_gone(site: BalancerSite, *, network: bool, by_id: bool) -> None:
    (node,) = await site.add_nodes("a")
    await site.restart(network=network)
    asked = node if by_id else NodeView(node.name, "")

    async def work() -> None:
        await site.cloud.instances.get(asked, accepted_age=0)

    async for when, error in everywhere(site, work):
        assert not isinstance(error, InstanceNotFound), when


@pytest.mark.parametrize("age", [0, 600])
async def test_routes_are_never_compared_across_projects(site: BalancerSite, age: float) -> None:
    await site.add_nodes("a", "b")
    await site.restart(HCLOUD_NETWORK_ROUTES_ENABLED="true")
    assert site.cloud.routes is not None
    routes = site.cloud.routes
    tables = [await routes.list(accepted_age=age)]

    async def work() -> None:
        tables.append(await routes.list(accepted_age=age))

    async for when, error in everywhere(site, work):
        if error is None:
            table = tables.pop()
            assert len(table.machines) == 2, when
            assert table.complete, when


async def test_targets_that_we_added_stay_known_for_ours(site: BalancerSite) -> None:
    """So that they can go with their Nodes, which nothing else tells of then."""
    stays, goes = await site.add_nodes("a", "b")
    await site.restart(network=False)

    service = view(annotations={"preserve-foreign": "true"})
    await site.ensure(service, [stays, goes])

    async def work() -> None:
        site.balancers.inventory.balancers._taken_at = None
        await site.balancers.orphans([service.uid])

    async for when, _ in everywhere(site, work):
        await site.ensure(service, [stays])
        assert targets(await site.one()).keys() == {number(stays)}, when
        await site.ensure(service, [stays, goes])


class Gate:
    """Holds a request back until it is opened."""

    def __init__(self, method: str, path: str) -> None:
        self._method, self._path = method, f"/v1{path}"
        self.came, self.opened = asyncio.Event(), asyncio.Event()

    @property
    def middleware(self) -> Any:
        @web.middleware
        async def hold(request: web.Request, handler: Any) -> web.StreamResponse:
            answer = await handler(request)
            wanted = request.method == self._method and fnmatch(request.path, self._path)
            if wanted and not self.came.is_set():
                self.came.set()
                await self.opened.wait()
            return answer

        return hold


@pytest.fixture
async def gated(request: pytest.FixtureRequest) -> AsyncIterator[tuple[BalancerSite, Gate]]:
    """A site without a network, of whose requests one is held back."""
    gate = Gate(*request.param)
    sky = await emulated_cloud.start(middlewares=[gate.middleware])
    site = await BalancerSite.open(sky)
    await site.restart(network=False)
    yield site, gate
    gate.opened.set()
    await site.close()
    await emulated_cloud.stop(sky)


async def meanwhile(site: BalancerSite, gate: Gate, work: Awaitable[Any]) -> asyncio.Task[Any]:
    """Begin work, and have the token change while its request is on its way."""
    running = asyncio.ensure_future(work)
    await asyncio.wait_for(gate.came.wait(), 60)
    site.cloud.api.token.read = lambda: OTHER_TOKEN
    await site.cloud.api.list("/locations", "locations", dict, priority=Priority.SWEEP)
    gate.opened.set()
    return running


@pytest.mark.parametrize("gated", [("GET", "/servers")], indirect=True)
async def test_a_list_that_was_on_its_way_proves_nothing(gated: tuple[BalancerSite, Gate]) -> None:
    site, gate = gated
    (node,) = await site.add_nodes("a")
    read = site.cloud.instances.list([node], accepted_age=10)
    with suppress(CloudUnavailable):
        await (await meanwhile(site, gate, read))
    assert not site.cloud.project.is_proven
    with pytest.raises(AccessDenied, match="another project"):
        await site.cloud.instances.get(node, accepted_age=0)


@pytest.mark.parametrize("gated", [("GET", "/networks/*")], indirect=True)
async def test_a_network_that_was_on_its_way_proves_nothing(gated: tuple[BalancerSite, Gate]) -> None:
    site, gate = gated
    (node,) = await site.add_nodes("a")
    await site.restart()
    await site.sky.call("DELETE", f"/servers/{number(node)}")
    with pytest.raises(CloudUnavailable):
        await (await meanwhile(site, gate, site.cloud.instances.get(node, accepted_age=0)))
    assert not site.cloud.project.is_proven


@pytest.mark.parametrize("gated", [("POST", "/load_balancers")], indirect=True)
async def test_a_pending_load_balancer_proves_nothing(gated: tuple[BalancerSite, Gate]) -> None:
    site, gate = gated
    await site.add_nodes("a")
    with pytest.raises(TokenChanged):
        await (await meanwhile(site, gate, site.ensure(view())))
    assert not site.cloud.project.is_proven
    assert not site.balancers.inventory.balancers.contents.by_id
    for leave in (site.ensure, site.balancers.delete):
        with pytest.raises(AccessDenied, match="another project"):
            await leave(view())
    site.cloud.api.token.read = lambda: TOKEN
    await site.ensure(view())
    assert await left(site) == (1, 0)
    assert await left(site, OTHER_TOKEN) == (0, 0)


@pytest.mark.parametrize("gated", [("POST", "/load_balancers/*/actions/add_service")], indirect=True)
async def test_no_step_is_tried_after_the_first_that_the_token_ends(gated: tuple[BalancerSite, Gate]) -> None:
    """Each takes a request from the budget before it finds that out."""
    site, gate = gated
    await site.add_nodes("a")
    await site.ensure(view("web", 80))
    gate.came.clear()
    running = await meanwhile(site, gate, site.ensure(view("web", *range(80, 90))))
    site.cloud.api.token.read = tokens = Tokens(1, FOREVER)
    with pytest.raises(CloudError, match="the token changed during the request"):
        await running
    assert tokens.looks == 1


@pytest.mark.parametrize("gated", [("POST", "/networks/*/actions/add_route")], indirect=True)
async def test_a_pending_route_is_not_awaited_in_another_project(gated: tuple[BalancerSite, Gate]) -> None:
    site, gate = gated
    await site.add_nodes("a")
    await site.restart(HCLOUD_NETWORK_ROUTES_ENABLED="true")
    assert site.cloud.routes is not None
    gateway = next(iter((await site.cloud.routes.list(accepted_age=0)).machines))
    await site.sky.admin("PUT", "/settings", {"actions": "realistic"})
    adding = await meanwhile(site, gate, site.cloud.routes.create(Route("10.244.0.0/24", gateway)))
    with pytest.raises(AccessDenied, match="another project"):
        await asyncio.wait_for(adding, 30)
