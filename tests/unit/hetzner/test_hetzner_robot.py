import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from emulated_cloud import OTHER_TOKEN, TOKEN, EmulatedCloud

from ccm.cloud import (
    AccessDenied,
    Address,
    CloudError,
    CloudUnavailable,
    Instance,
    InstanceNotFound,
    NodeView,
    QuotaExhausted,
)
from ccm.controllers.node import NodeController
from ccm.controllers.node_lifecycle import NodeLifecycleController
from ccm.hetzner import HetznerCloud, open_cloud
from ccm.hetzner.robot.client import RobotClient, RobotServer
from ccm.hetzner.robot.machines import RobotMachines, describe_robot
from ccm.hetzner.server_to_instance import FROM_SCRATCH, OFFICIAL, InstanceOptions
from ccm.hetzner.settings import Secret
from ccm.kube.events import EventRecorder
from ccm.kube.informer import Informer
from ccm.kube.objects import Node
from ccm.testing.conformance.cluster import node_object
from ccm.testing.memory_transport import MemoryTransport
from hetzner_emulator.app import CLOUD
from tests.robot_service import create_robot_app

HOSTNAME, EXTERNAL, INTERNAL = "Hostname", "ExternalIP", "InternalIP"
SERVER = RobotServer(321, "a", "AX41-NVMe", "FSN1-DC14", "198.51.100.9", "2001:db8:1::")


def described(server: RobotServer = SERVER, node: NodeView | None = None, **options: Any) -> Instance:
    forward = options.pop("forward_internal", True)
    chosen = InstanceOptions(**{"naming": FROM_SCRATCH, **options})
    return describe_robot(server, node or NodeView("a"), chosen, forward_internal=forward, shut_down=False)


def test_region_zone_type_and_labels() -> None:
    instance = described()
    assert (instance.provider_id, instance.type) == ("hrobot://321", "AX41-NVMe")
    assert (instance.region, instance.zone) == ("eu-central", "fsn1")
    assert instance.labels == {"instance.hetzner.cloud/provided-by": "robot"}
    official = described(naming=OFFICIAL)
    assert (official.provider_id, official.region, official.zone) == ("hrobot://321", "fsn1", "fsn1-dc14")
    assert described(naming=OFFICIAL, zone_label=False).zone == "fsn1-dc14", "as with the official CCM"


@pytest.mark.parametrize(
    ("product", "label"), [("Server Auction", "Server-Auction"), ("AX 41 (NVMe)!", "AX-41-NVMe"), ("", "")]
)
def test_a_product_becomes_a_label(product: str, label: str) -> None:
    assert described(RobotServer(1, "a", product)).type == label


def with_internal(*addresses: str) -> NodeView:
    return NodeView("a", addresses=tuple(Address(INTERNAL, address) for address in addresses))


@pytest.mark.parametrize(
    ("node", "options", "expected", "notice_count"),
    [
        (NodeView("a"), {}, [(EXTERNAL, "198.51.100.9")], 0),
        (NodeView("a"), {"ipv4": False, "ipv6": True}, [(EXTERNAL, "2001:db8:1::1")], 0),
        (NodeView("a"), {"ipv6": True}, [(EXTERNAL, "2001:db8:1::1"), (EXTERNAL, "198.51.100.9")], 0),
        (with_internal("10.0.0.7"), {}, [(EXTERNAL, "198.51.100.9"), (INTERNAL, "10.0.0.7")], 0),
        (with_internal("10.0.0.7"), {"forward_internal": False}, [(EXTERNAL, "198.51.100.9")], 0),
        (with_internal("198.51.100.9"), {}, [(EXTERNAL, "198.51.100.9")], 1),
        (with_internal("fd00::7"), {}, [(EXTERNAL, "198.51.100.9")], 1),
        (with_internal("nonsense"), {}, [(EXTERNAL, "198.51.100.9")], 1),
        (
            with_internal("::ffff:10.0.0.1"),
            {},
            [(EXTERNAL, "198.51.100.9"), (INTERNAL, "::ffff:10.0.0.1")],
            0,
        ),
        (with_internal("fe80::1%eth0"), {}, [(EXTERNAL, "198.51.100.9")], 1),
        (
            with_internal("fe80::1%eth0"),
            {"ipv4": False, "ipv6": True},
            [(EXTERNAL, "2001:db8:1::1"), (INTERNAL, "fe80::1%eth0")],
            0,
        ),
    ],
)
def test_addresses(
    node: NodeView, options: dict[str, Any], expected: list[tuple[str, str]], notice_count: int
) -> None:
    instance = described(node=node, **options)
    assert instance.addresses == tuple(Address(*pair) for pair in [(HOSTNAME, "a"), *expected])
    assert [notice.reason for notice in instance.notices] == ["MisconfiguredInternalIP"] * notice_count


def test_a_name_unlike_the_nodes_is_explained_and_changes_nothing() -> None:
    instance = described(node=NodeView("other", "hrobot://321"))
    assert instance.addresses[0] == Address(HOSTNAME, "other")
    assert [notice.reason for notice in instance.notices] == ["RobotNameDiffers"]


@dataclass
class Site:
    sky: EmulatedCloud
    cloud: HetznerCloud

    async def add(self, name: str, **facts: Any) -> int:
        body = {"name": name, "ip": f"198.51.100.{len(name) + 10}", **facts}
        return (await self.sky.admin("POST", "/robot/servers", body))["server_number"]

    async def get(self, node: NodeView, age: float = 0) -> Instance:
        return await self.cloud.instances.get(node, accepted_age=age)


@pytest.fixture
async def robot(sky: EmulatedCloud) -> AsyncIterator[TestServer]:
    server = TestServer(create_robot_app(sky.server.app[CLOUD], {"me": "secret"}, limit=20))
    await server.start_server()
    yield server
    await server.close()


def environment(sky: EmulatedCloud, robot: TestServer, **more: str) -> dict[str, str]:
    robot_settings = {
        "ROBOT_ENABLED": "true",
        "ROBOT_USER": "me",
        "ROBOT_PASSWORD": "secret",
        "ROBOT_ENDPOINT": str(robot.make_url("/")),
        "ROBOT_CACHE_TIMEOUT": "1h",
    }
    return sky.environment | robot_settings | more


def client_of(server: TestServer, user: str = "me", **more: Any) -> RobotClient:
    return RobotClient(str(server.make_url("")), Secret(user), Secret("secret"), **more)


@asynccontextmanager
async def opened(
    sky: EmulatedCloud, robot: TestServer, provider: str = "ccm-from-scratch", **more: str
) -> AsyncIterator[Site]:
    cloud = open_cloud(environment(sky, robot, **more), provider=provider)
    yield Site(sky, cloud)
    await cloud.close()


@pytest.fixture
async def site(sky: EmulatedCloud, robot: TestServer) -> AsyncIterator[Site]:
    async with opened(sky, robot) as site:
        await site.cloud.start()
        yield site


async def test_by_name_and_by_both_spellings_of_the_id(site: Site) -> None:
    number = await site.add("metal")
    assert (await site.get(NodeView("metal"))).provider_id == f"hrobot://{number}"
    assert (await site.get(NodeView("metal", f"hrobot://{number}"))).name == "metal"
    assert (await site.get(NodeView("metal", f"hrobot://{number}"), 10)).name == "metal"


async def test_robot_has_a_cache_timeout_of_its_own(sky: EmulatedCloud, robot: TestServer) -> None:
    """Robot answers twenty requests here, and two hundred an hour in truth."""
    names = ["one", "two", "three"]
    async with opened(sky, robot, HCLOUD_SERVER_CACHE_MODE="off") as site:
        nodes = [NodeView(name, f"hrobot://{await site.add(name)}", asks_power=True) for name in names]
        for _ in range(10):
            answers = await site.cloud.instances.list(nodes, accepted_age=600)
            assert [getattr(answers[name], "name", answers[name]) for name in names] == names


async def test_the_official_ccms_older_spelling(sky: EmulatedCloud, robot: TestServer) -> None:
    async with opened(sky, robot, provider="hcloud") as site:
        number = await site.add("metal")
        assert (await site.get(NodeView("metal", f"hcloud://bm-{number}"))).name == "metal"


async def test_absent_servers(site: Site) -> None:
    await site.get(NodeView("metal", f"hrobot://{await site.add('metal')}"))
    with pytest.raises(InstanceNotFound):
        await site.get(NodeView("x", "hrobot://99"))
    with pytest.raises(InstanceNotFound) as error:
        await site.get(NodeView("x"))
    assert [notice.reason for notice in error.value.notices] == ["InstanceLookupFailed"]


async def test_after_a_new_token_a_server_that_robot_has_needs_no_proof_of_the_project(site: Site) -> None:
    """A cluster of Robot servers without a network has nothing that could prove it."""
    number = await site.add("metal")
    await site.get(NodeView("metal"))
    for token in (OTHER_TOKEN, TOKEN):
        site.cloud.api.token.read = lambda token=token: token
        for age in (0, 10):
            assert (await site.get(NodeView("metal"), age)).provider_id == f"hrobot://{number}"
            with pytest.raises(AccessDenied, match="another project"):
                await site.get(NodeView("x"), age)


async def test_a_name_in_both_worlds_is_refused(site: Site) -> None:
    await site.add("twin")
    await site.sky.add_server("twin")
    with pytest.raises(CloudError, match="both have a server") as error:
        await site.get(NodeView("twin"))
    assert not isinstance(error.value, InstanceNotFound)
    assert [notice.reason for notice in error.value.notices] == ["InstanceLookupFailed"]


@pytest.mark.parametrize(
    ("status", "off"), [("running", False), ("shut off", True), ("not supported", False)]
)
async def test_power(site: Site, status: str, off: bool) -> None:
    number = await site.add("metal", operating_status=status)
    assert (await site.get(NodeView("metal", f"hrobot://{number}"))).shut_down is off
    assert not (await site.get(NodeView("metal", f"hrobot://{number}", asks_power=False))).shut_down


@pytest.mark.parametrize("status", [200, 404, 503])
@pytest.mark.parametrize(
    "body",
    [
        b'{"server": {"server_name": "B\xfcro"}, "error": {"message": "\xfcberlastet"}}',
        b"[" * 100_000,
        b"<html>",
        b"",
    ],
    ids=["no UTF-8", "deep", "no JSON", "nothing"],
)
async def test_an_answer_that_can_not_be_read_is_an_error_of_the_cloud(status: int, body: bytes) -> None:
    """Controllers foresee those, and no others."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    application = web.Application()
    application.router.add_get("/server/7", answer)
    async with TestServer(application) as server:
        client = client_of(server)
        with pytest.raises(CloudUnavailable):
            await client.server(7)
        await client.close()


METAL = {"server": {"server_number": 7, "server_name": "metal"}}


@dataclass
class Robot:
    """Robot's web service with one server, metal, and any answer about its power."""

    reset: tuple[int, str] | str  # status and error code, or the power of a server that tells it
    asked: int = 0  # how often somebody asked for it

    async def list(self, _: web.Request) -> web.Response:
        return web.json_response([METAL])

    async def one(self, _: web.Request) -> web.Response:
        return web.json_response(METAL)

    async def power(self, _: web.Request) -> web.Response:
        self.asked += 1
        if isinstance(self.reset, str):
            return web.json_response({"reset": {"operating_status": self.reset}})
        status, code = self.reset
        return web.json_response({"error": {"code": code, "message": "no"}}, status=status)

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/server", self.list)
        application.router.add_get("/server/7", self.one)
        application.router.add_get("/reset/7", self.power)
        return application


@pytest.mark.parametrize(
    "refusal",
    [
        (404, "RESET_NOT_AVAILABLE"),
        (401, "UNAUTHORIZED"),
        (403, "FORBIDDEN"),
        (403, "RATE_LIMIT_EXCEEDED"),
        (500, "INTERNAL_ERROR"),
    ],
)
async def test_a_server_of_unknown_power_is_known(refusal: tuple[int, str]) -> None:
    robot, now = Robot(refusal), 0.0
    options = InstanceOptions(FROM_SCRATCH)
    async with TestServer(robot.application()) as server:
        client = client_of(server, clock=lambda: now)
        machines = RobotMachines(client, clock=lambda: now)
        node = NodeView("metal", "hrobot://7")
        for _ in range(10):
            found = await machines.get(node, 7, options, accepted_age=60)
            assert (found.name, found.shut_down) == ("metal", False)
        assert robot.asked == 1, "a refusal uses up quota as well"
        robot.reset, now = "shut off", 200.0
        assert (await machines.get(node, 7, options, accepted_age=60)).shut_down
        await machines.close()


async def test_a_new_node_does_not_need_the_power_of_its_server(sky: EmulatedCloud) -> None:
    robot = Robot((500, "INTERNAL_ERROR"))
    async with TestServer(robot.application()) as server:
        cloud = open_cloud(environment(sky, server))
        cluster = MemoryTransport()
        nodes = Informer(cluster, "/api/v1/nodes", Node)
        cluster.put("/api/v1/nodes", node_object("metal", ready=False))
        controllers = [
            NodeController(cloud.instances, cluster, nodes, EventRecorder(cluster, "test")),
            NodeLifecycleController(cloud.instances, cluster, nodes, EventRecorder(cluster, "test")),
        ]
        running = [asyncio.create_task(one.run()) for one in (nodes, *controllers)]
        async with asyncio.timeout(60):
            while "taints" in cluster.read("/api/v1/nodes/metal")["spec"]:  # noqa: ASYNC110 - a store
                await asyncio.sleep(0.02)
        assert robot.asked == 0
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await cloud.close()


async def test_the_power_is_asked_again_where_only_the_present_counts() -> None:
    """Volumes of a server that was off a minute ago are not given away."""
    robot = Robot("shut off")
    async with TestServer(robot.application()) as server:
        machines, node = RobotMachines(client_of(server)), NodeView("metal", "hrobot://7")
        found = []
        for age in (60, 60, 0):
            instance = await machines.get(node, 7, InstanceOptions(FROM_SCRATCH), accepted_age=age)
            found.append(instance.shut_down)
            robot.reset = "running"
        assert found == [True, True, False]
        await machines.close()


async def test_a_server_that_robot_denied_is_asked_for_again_only_where_that_counts() -> None:
    """Robot allows 200 requests an hour for all, and its list lacks the server each time."""
    robot, now, asked, there = Robot((404, "")), 0.0, 0, False

    async def eight(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        body = {"server": {"server_number": 8}} if there else {"error": {"code": "SERVER_NOT_FOUND"}}
        return web.json_response(body, status=200 if there else 404)

    application = robot.application()
    application.router.add_get("/server/8", eight)
    options, node = InstanceOptions(FROM_SCRATCH), NodeView("b", "hrobot://8")
    async with TestServer(application) as server:
        client = client_of(server, clock=lambda: now)
        machines = RobotMachines(client, clock=lambda: now)
        await machines.get(NodeView("metal", "hrobot://7"), 7, options, accepted_age=60)
        for _ in range(720):
            now += 5
            with pytest.raises(InstanceNotFound):
                await machines.get(node, 8, options, accepted_age=5)
        assert asked <= 3
        with pytest.raises(InstanceNotFound):
            await machines.get(node, 8, options, accepted_age=0)
        assert asked <= 4
        there = True
        assert await machines.get(node, 8, options, accepted_age=0)
        assert await machines.get(node, 8, options, accepted_age=5)
        await machines.close()


async def test_many_servers_that_are_off_stay_within_robots_limit(site: Site, sky: EmulatedCloud) -> None:
    """It allows 200 questions an hour; twenty nodes are asked about every minute."""
    names = [f"m{'x' * n}" for n in range(20)]
    numbers = {name: await site.add(name, operating_status="shut off") for name in names}
    options, now = InstanceOptions(FROM_SCRATCH), 0.0
    async with TestServer(create_robot_app(sky.server.app[CLOUD], {"me": "secret"}, limit=200)) as server:
        machines = RobotMachines(client_of(server), cache_timeout=300, clock=lambda: now)
        for minute in range(60):
            now = minute * 60.0
            for name, number in numbers.items():
                node = NodeView(name, f"hrobot://{number}")
                assert (await machines.get(node, number, options, accepted_age=60)).shut_down
        await machines.close()


async def test_the_limit_silences_us_for_a_while(site: Site) -> None:
    number = await site.add("metal")
    node = NodeView("metal", f"hrobot://{number}", asks_power=False)
    for _ in range(20):
        await site.get(node)
    with pytest.raises(QuotaExhausted, match="RATE_LIMIT_EXCEEDED"):
        await site.get(node)
    with pytest.raises(QuotaExhausted, match="waiting because"):
        await site.get(node)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"ROBOT_PASSWORD": "wrong"}, AccessDenied),
        ({"ROBOT_ENDPOINT": "http://127.0.0.1:9"}, CloudUnavailable),
        ({"ROBOT_USER": "", "ROBOT_PASSWORD": ""}, CloudError),
    ],
)
async def test_no_answer_is_no_absence(
    sky: EmulatedCloud, robot: TestServer, more: dict[str, str], error: type[CloudError]
) -> None:
    views = [NodeView("a", "hrobot://1"), NodeView("b", "hrobot://2")]
    async with opened(sky, robot, **more) as site:
        with pytest.raises(error):
            await site.get(views[0])
        answers = await site.cloud.instances.list(views, accepted_age=60)
        assert {type(answer) for answer in answers.values()} <= {error, CloudUnavailable}


async def test_an_unknown_account_proves_nothing(
    sky: EmulatedCloud, robot: TestServer, tmp_path: Path
) -> None:
    user = tmp_path / "user"
    user.write_text("me")
    gone = NodeView("gone", "hrobot://99")
    async with opened(sky, robot, ROBOT_USER="", ROBOT_USER_FILE=str(user)) as site:
        for age in (0, 10):
            with pytest.raises(AccessDenied, match="another account") as denied:
                await site.get(gone, age)
        assert [notice.reason for notice in denied.value.notices] == ["WrongProject"]
        number = await site.add("metal")
        await site.get(NodeView("metal", f"hrobot://{number}"))
        with pytest.raises(InstanceNotFound):
            await site.get(gone)
        user.write_text("someone-else")
        with pytest.raises(AccessDenied):
            await site.get(gone)
    async with opened(sky, robot, CCM_MASS_DELETION_BREAKER="false") as site:
        with pytest.raises(InstanceNotFound):
            await site.get(gone)


async def test_an_odd_server_costs_only_itself() -> None:
    good, odd = {"server_number": 7, "server_name": "good"}, {"server_number": 8, "product": None}

    async def answer(_: web.Request) -> web.Response:
        return web.json_response([{"server": odd}, {"server": 5}, {}, {"server": good}])

    application = web.Application()
    application.router.add_get("/server", answer)
    async with TestServer(application) as server:
        client = client_of(server)
        listing = await client.servers()
        await client.close()
    assert listing.items == [RobotServer(7, "good")]
    assert [one.id for one in listing.undecodable] == [8, 0, 0]


async def test_a_user_that_can_not_be_one_is_named(robot: TestServer) -> None:
    client = client_of(robot, "a:b")
    with pytest.raises(AccessDenied, match="ROBOT_USER contains a colon"):
        await client.servers()


async def test_a_new_password_needs_no_restart(sky: EmulatedCloud, robot: TestServer, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("old")
    async with opened(sky, robot, ROBOT_PASSWORD="", ROBOT_PASSWORD_FILE=str(password)) as site:
        node = NodeView("metal", f"hrobot://{await site.add('metal')}", asks_power=False)
        with pytest.raises(AccessDenied):
            await site.get(node)
        password.write_text("secret\n")
        assert (await site.get(node)).name == "metal"
