"""Whatever the cloud does wrong for a while, Nodes and routes end as they should.

Each cell lets one thing go wrong during one operation, with the real controllers on the emulated cloud and
an API server in memory, and then checks the end: all done, nothing doubled, lost or wrongly deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import emulated_cloud
import pytest
from emulated_cloud import OTHER_TOKEN, TOKEN, EmulatedCloud
from fake_cluster import NODES, Events
from fake_cluster import node as node_object

from ccm.controllers.node import NodeController, NodeOptions
from ccm.controllers.node_lifecycle import NodeLifecycleController, NodeLifecycleOptions
from ccm.controllers.route import QUEUE, RouteController, RouteOptions, parse_cluster_cidrs
from ccm.hetzner import HetznerCloud, open_cloud
from ccm.hetzner.budget import Priority
from ccm.kube.informer import Informer
from ccm.kube.memory import MemoryTransport
from ccm.kube.objects import Node
from ccm.kube.queue import WorkQueue
from ccm.kube.ratelimit import RetryLimiter

pytestmark = pytest.mark.slow
PERIOD = 0.05
FAULTS: dict[str, dict[str, Any]] = {
    "429": {"code": "rate_limit_exceeded"},
    "500": {"code": "server_error"},
    "503": {"code": "unavailable"},
    "504 after the effect": {"code": "timeout", "after": True},
    "dropped before the effect": {"drop": "before"},
    "dropped after the effect": {"drop": "after"},
    "half an answer": {"truncated_body": True},
    "a proxy's page": {"status": 502, "raw": True},
    "locked": {"code": "locked"},
    "conflict": {"code": "conflict"},
    "truncated page": {"truncated_page": True},
    "empty listing": {"empty_listing": True},
    "stale answers": {"stale": True},
    "foreign token": {},
}


@dataclass
class World:
    """Three servers with their Nodes; all controllers run."""

    sky: EmulatedCloud
    cloud: HetznerCloud
    transport: MemoryTransport
    network: int
    servers: list[dict[str, Any]]
    token: Path
    healing: asyncio.Task[None] | None = None

    def put_node(self, number: int, *, ready: bool = True, tainted: bool = False) -> None:
        server = self.servers[number]
        provider_id = "" if tainted else f"ccm-from-scratch://{server['id']}"
        condition = "True" if ready else "Unknown"
        spec = {"podCIDR": f"10.244.{number}.0/24"}
        item = node_object(
            server["name"], provider_id=provider_id, ready=condition, tainted=tainted, spec=spec
        )
        self.transport.put(NODES, item)

    def route(self, number: int) -> tuple[str, str]:
        return f"10.244.{number}.0/24", self.servers[number]["private_net"][0]["ip"]

    async def routes(self) -> list[tuple[str, str]]:
        # Looked up behind the API, where no fault strikes.
        (network,) = (await self.sky.admin("GET", "/state?kind=network"))["network"]
        return sorted((one["destination"], one["gateway"]) for one in network["routes"])

    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.transport.all(NODES)]

    async def break_for_a_while(self, fault: str) -> None:
        """The fault strikes the next requests of ours, or for a moment."""
        if fault != "foreign token":
            # Half a second of stale answers; everything else strikes twice on every path.
            times = None if FAULTS[fault].get("stale") else 2
            for path in ("/servers*", "/networks*"):
                await self.sky.fault(path=path, times=times, **FAULTS[fault])
            if times is None:
                self._later(self.sky.heal)
            return
        self.token.write_text(OTHER_TOKEN)
        self._later(self._right_token)

    def _later(self, heal: Callable[[], Any]) -> None:
        async def wait_and_heal() -> None:
            await asyncio.sleep(0.5)
            await heal()

        self.healing = asyncio.create_task(wait_and_heal())

    async def _right_token(self) -> None:
        self.token.write_text(TOKEN)

    async def until(self, done: Callable[[], Any], what: str) -> None:
        async def check() -> bool:
            result = done()
            return bool(await result if asyncio.iscoroutine(result) else result)

        if self.healing is not None:
            await self.healing
        async with asyncio.timeout(20):
            while not await check():  # noqa: ASYNC110 - what happens in the cloud sets no event here
                await asyncio.sleep(PERIOD)
        # And it stays so.
        await asyncio.sleep(6 * PERIOD)
        assert await check(), what


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[World]:
    monkeypatch.setattr("ccm.hetzner.api.PAUSE", 0.01)
    monkeypatch.setattr("ccm.hetzner.routes.PAUSE", 0.01)
    # What 429 takes away comes back in a moment, for everybody.
    monkeypatch.setattr("ccm.hetzner.budget.RESERVE", dict.fromkeys(Priority, 0.0))
    sky = await emulated_cloud.start()
    network = await sky.network("net")
    servers = [await sky.add_server(f"s{number}", networks=[network]) for number in range(3)]
    token = tmp_path / "token"
    token.write_text(TOKEN)
    environment = {
        "HCLOUD_ENDPOINT": sky.endpoint,
        "HCLOUD_TOKEN_FILE": str(token),
        "HCLOUD_NETWORK": "net",
        "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
    }
    cloud = open_cloud(environment)
    cloud.api.budget.limit = 3_600_000
    await cloud.start()
    yield World(sky, cloud, MemoryTransport(), network, servers, token)
    await cloud.close()
    await emulated_cloud.stop(sky)


@pytest.fixture
async def running(world: World) -> AsyncIterator[Callable[[], None]]:
    """Starts the controllers; they end with the test."""
    tasks: list[asyncio.Task[None]] = []

    def start() -> None:
        nodes = Informer(world.transport, NODES, Node)
        events = Events()
        instances, routes = world.cloud.instances, world.cloud.routes
        assert routes
        options = NodeOptions(status_update_frequency=0.5, accepted_age=1.0)
        lifecycle = NodeLifecycleOptions(monitor_period=PERIOD, longest_interval=0.2)
        route_options = RouteOptions(parse_cluster_cidrs("10.244.0.0/16"), PERIOD, accepted_age=0.1)
        controllers = [
            nodes,
            NodeController(instances, world.transport, nodes, events, options),
            NodeLifecycleController(instances, world.transport, nodes, events, lifecycle),
            RouteController(
                routes,
                world.transport,
                nodes,
                events,
                route_options,
                queue=WorkQueue(QUEUE, limiter=RetryLimiter(0.05, 0.2)),
            ),
        ]
        tasks.extend(asyncio.create_task(one.run()) for one in controllers)

    yield start
    assert not [task for task in tasks if task.done()], "no fault ends a controller"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("fault", FAULTS)
async def test_initialising_nodes(world: World, running: Callable[[], None], fault: str) -> None:
    for number in range(3):
        world.put_node(number, tainted=True)
    await world.break_for_a_while(fault)
    running()

    def initialised() -> bool:
        nodes = {item["metadata"]["name"]: item for item in world.transport.all(NODES)}
        return all(
            nodes[server["name"]]["spec"].get("providerID") == f"ccm-from-scratch://{server['id']}"
            and not nodes[server["name"]]["spec"].get("taints")
            and len(nodes[server["name"]]["status"]["addresses"]) == 3
            for server in world.servers
        )

    await world.until(initialised, fault)
    assert len(world.names()) == 3


@pytest.mark.parametrize("fault", FAULTS)
async def test_deleting_the_node_of_a_removed_server_and_no_other(
    world: World, running: Callable[[], None], fault: str
) -> None:
    """None of the Nodes is Ready: each has to be asked about."""
    for number in range(3):
        world.put_node(number, ready=False)
    await world.sky.call("DELETE", f"/servers/{world.servers[1]['id']}")
    await world.break_for_a_while(fault)
    running()
    await world.until(lambda: world.names() == ["s0", "s2"], fault)


@pytest.mark.parametrize("fault", FAULTS)
async def test_keeping_all_nodes(world: World, running: Callable[[], None], fault: str) -> None:
    for number in range(3):
        world.put_node(number, ready=False)
    await world.break_for_a_while(fault)
    running()
    await asyncio.sleep(1.0)
    assert world.names() == ["s0", "s1", "s2"]


@pytest.mark.parametrize("fault", FAULTS)
async def test_creating_routes(world: World, running: Callable[[], None], fault: str) -> None:
    for number in range(3):
        world.put_node(number)
    await world.break_for_a_while(fault)
    running()
    wanted = [world.route(number) for number in range(3)]

    async def routed() -> bool:
        conditions = [
            condition["status"]
            for item in world.transport.all(NODES)
            for condition in item["status"]["conditions"]
            if condition["type"] == "NetworkUnavailable"
        ]
        return conditions == ["False"] * 3 and await world.routes() == wanted

    await world.until(routed, fault)


@pytest.mark.parametrize("fault", FAULTS)
async def test_deleting_the_route_of_a_removed_node_and_no_other(
    world: World, running: Callable[[], None], fault: str
) -> None:
    foreign = {"destination": "10.99.0.0/24", "gateway": world.route(0)[1]}
    await world.sky.call("POST", f"/networks/{world.network}/actions/add_route", foreign)
    for number in range(3):
        world.put_node(number)
    running()
    others = ("10.99.0.0/24", world.route(0)[1])
    await world.until(_has(world, [*(world.route(number) for number in range(3)), others]), "set up")
    await world.sky.call("DELETE", f"/servers/{world.servers[1]['id']}")
    world.transport.remove(f"{NODES}/s1")
    await world.break_for_a_while(fault)
    await world.until(_has(world, [world.route(0), world.route(2), others]), fault)


def _has(world: World, routes: list[tuple[str, str]]) -> Callable[[], Any]:
    async def check() -> bool:
        return await world.routes() == sorted(routes)

    return check
