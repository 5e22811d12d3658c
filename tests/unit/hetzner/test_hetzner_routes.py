import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from emulated_cloud import EmulatedCloud

from ccm.cloud import CloudError, Rejected, Route
from ccm.hetzner import HetznerCloud, open_cloud
from ccm.hetzner.routes import HetznerRoutes


@dataclass
class Site:
    sky: EmulatedCloud
    cloud: HetznerCloud
    network: int
    servers: list[dict[str, Any]]
    environment: dict[str, str]

    @property
    def routes(self) -> HetznerRoutes:
        assert self.cloud.routes
        return self.cloud.routes

    def route(self, number: int) -> Route:
        return Route(f"10.244.{number}.0/24", self.servers[number]["private_net"][0]["ip"])

    async def present(self) -> set[tuple[str, str]]:
        network = (await self.sky.call("GET", f"/networks/{self.network}"))["network"]
        return {(one["destination"], one["gateway"]) for one in network["routes"]}


@pytest.fixture
async def site(sky: EmulatedCloud, monkeypatch) -> AsyncIterator[Site]:
    monkeypatch.setattr("ccm.hetzner.routes.PAUSE", 0.01)
    network = await sky.network("net")
    servers = [await sky.add_server(f"s{number}", networks=[network]) for number in range(3)]
    environment = sky.environment | {"HCLOUD_NETWORK": "net", "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true"}
    cloud = open_cloud(environment)
    await cloud.start()
    await sky.forget_requests()
    yield Site(sky, cloud, network, servers, environment)
    await cloud.close()


def pairs(*routes: Route) -> set[tuple[str, str]]:
    return {(route.destination, route.gateway) for route in routes}


async def test_a_machine_is_for_the_node_that_name_or_label_say(site: Site) -> None:
    label = {"labels": {"ccm-from-scratch/node": "other"}}
    await site.sky.call("PUT", f"/servers/{site.servers[1]['id']}", label)
    table = await site.routes.list(accepted_age=0)
    assert [table.machines[site.route(number).gateway].node for number in (0, 1)] == ["s0", "other"]
    trusting = open_cloud({**site.environment, "CCM_NODE_NAME_CHECK": "false"})
    await trusting.start()
    assert trusting.routes
    table = await trusting.routes.list(accepted_age=0)
    assert {machine.node for machine in table.machines.values()} == {""}
    await trusting.close()


async def test_the_picture_has_routes_and_machines(site: Site) -> None:
    await site.routes.create(site.route(0))
    table = await site.routes.list(accepted_age=0)
    assert table.routes == (site.route(0),)
    assert table.complete
    machine = table.machines[site.route(1).gateway]
    assert (machine.provider_id, machine.name) == (f"ccm-from-scratch://{site.servers[1]['id']}", "s1")
    assert len(table.machines) == 3
    assert site.routes.owns(machine.provider_id)
    scheme, _, digits = machine.provider_id.rpartition("/")
    assert site.routes.normalized(f"{scheme}/00{digits}") == machine.provider_id
    assert site.routes.normalized("hrobot://x") == "hrobot://x", "it can't be read"
    assert not site.routes.owns("hrobot://1")


async def test_robot_servers_of_either_spelling_have_none(sky: EmulatedCloud) -> None:
    await sky.network("net")
    environment = {"HCLOUD_NETWORK": "net", "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true"}
    cloud = open_cloud(sky.environment | environment, provider="hcloud")
    await cloud.start()
    assert cloud.routes
    assert cloud.routes.owns("hcloud://1")
    assert not cloud.routes.owns("hrobot://1")
    assert not cloud.routes.owns("hcloud://bm-1")
    await cloud.close()


async def test_ten_new_routes_cost_ten_posts_and_no_conflict(site: Site) -> None:
    await asyncio.gather(
        *(site.routes.create(Route(f"10.244.{n}.0/24", site.route(0).gateway)) for n in range(10))
    )
    counts = await site.sky.counts()
    assert counts["POST /networks/{id}/actions/add_route"] == 10
    assert counts.get("GET /networks/{id}", 0) <= 1
    assert len(await site.present()) == 10


async def test_creating_and_deleting_are_idempotent(site: Site) -> None:
    for _ in range(2):
        await site.routes.create(site.route(0))
    assert await site.present() == pairs(site.route(0))
    for _ in range(2):
        await site.routes.delete(site.route(0))
    assert await site.present() == set()


async def test_another_route_to_the_destination_is_no_success(site: Site) -> None:
    await site.routes.create(site.route(0))
    with pytest.raises(Rejected):
        await site.routes.create(Route(site.route(0).destination, site.route(1).gateway))


async def test_ipv6_is_refused_before_the_api_is_asked(site: Site) -> None:
    with pytest.raises(Rejected, match="can't route IPv6"):
        await site.routes.create(Route("fd00::/64", "10.0.0.2"))
    assert await site.sky.counts() == {}


@dataclass
class Change:
    """One of the two changes that can be made to a route."""

    command: str
    make: Callable[[Route], Awaitable[None]]
    leaves: set[tuple[str, str]]


@pytest.fixture(params=["add_route", "delete_route"])
async def change(site: Site, request: pytest.FixtureRequest) -> Change:
    if request.param == "add_route":
        return Change(request.param, site.routes.create, pairs(site.route(0)))
    await site.routes.create(site.route(0))
    return Change(request.param, site.routes.delete, set())


@pytest.mark.looptime
async def test_what_is_left_for_routes_is_enough_to_see_them_through(site: Site, change: Change) -> None:
    """Load balancers may use nothing of it, and so they could not even look how an action ends."""
    await site.sky.admin("PUT", "/settings", {"actions": "realistic"})
    budget = site.cloud.api.budget
    budget.observe(3600, 120)
    budget.observe = lambda *_: None  # type: ignore[method-assign] - this project knows no limit, and says so
    await change.make(site.route(0))
    assert (await site.sky.counts())["GET /actions"] > 0
    assert await site.present() == change.leaves


@pytest.mark.parametrize("code", ["locked", "conflict"])
async def test_a_locked_network_is_tried_again(site: Site, change: Change, code: str) -> None:
    await site.sky.fault(method="POST", path=f"*/{change.command}", code=code, times=3)
    await change.make(site.route(0))
    assert await site.present() == change.leaves


@pytest.mark.parametrize("fault", [{"drop": "after"}, {"code": "timeout", "after": True}], ids=str)
async def test_a_lost_answer_is_looked_up(site: Site, change: Change, fault: dict[str, Any]) -> None:
    await site.sky.fault(method="POST", path=f"*/{change.command}", times=1, **fault)
    await site.sky.forget_requests()
    await change.make(site.route(0))
    assert await site.present() == change.leaves
    assert (await site.sky.counts())[f"POST /networks/{{id}}/actions/{change.command}"] == 1


async def test_a_network_that_stays_locked(site: Site) -> None:
    await site.sky.fault(method="POST", path="*/add_route", code="locked")
    with pytest.raises(CloudError):
        await site.routes.create(site.route(0))


async def test_a_change_that_did_not_happen_is_an_error(site: Site) -> None:
    await site.sky.fault(method="POST", path="*/add_route", drop="before", times=1)
    with pytest.raises(CloudError):
        await site.routes.create(site.route(0))
    await site.routes.create(site.route(0))


async def test_a_recent_picture_costs_nothing_and_knows_our_changes(site: Site) -> None:
    await site.routes.list(accepted_age=300)
    await site.routes.create(site.route(0))
    await site.sky.forget_requests()
    table = await site.routes.list(accepted_age=300)
    assert table.routes == (site.route(0),)
    assert await site.sky.counts() == {}


@pytest.mark.parametrize("fault", [{"empty_listing": True}, {"stale": True}], ids=str)
async def test_servers_that_the_network_knows_but_the_list_lacks(site: Site, fault: dict[str, Any]) -> None:
    await site.sky.fault(path="/servers", **fault)
    await site.routes.list(accepted_age=300)
    await site.sky.add_server("late", networks=[site.network])
    table = await site.routes.list(accepted_age=0)
    assert not table.complete


async def test_a_list_that_lags_behind_the_network_is_read_again(site: Site) -> None:
    await site.routes.list(accepted_age=300)
    await site.sky.add_server("late", networks=[site.network])
    site.routes._network = None
    table = await site.routes.list(accepted_age=300)
    assert table.complete
    assert len(table.machines) == 4


async def test_truncated_lists_are_errors(site: Site) -> None:
    await site.sky.fault(path="/servers", truncated_page=True)
    with pytest.raises(CloudError):
        await site.routes.list(accepted_age=0)
