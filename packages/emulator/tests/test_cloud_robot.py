from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession, encode_basic_auth
from aiohttp.test_utils import TestServer
from cloud_emulator import Emulator, Start

from tests.robot_service import create_robot_app

USER = encode_basic_auth("user", "secret")


def _headers(auth: str | None) -> dict[str, str]:
    return {"Authorization": auth} if auth else {}


class Robot:
    def __init__(self, server: TestServer, session: ClientSession) -> None:
        self._server, self._session = server, session

    async def get(self, path: str, auth: str | None = USER) -> tuple[int, Any]:
        async with self._session.get(self._server.make_url(path), headers=_headers(auth)) as response:
            return response.status, await response.json()

    async def rename(self, number: int, name: str) -> Any:
        url = self._server.make_url(f"/server/{number}")
        async with self._session.post(url, headers=_headers(USER), data={"server_name": name}) as response:
            return await response.json()


@pytest.fixture
async def cloud(start: Start) -> Emulator:
    return await start()


@pytest.fixture
async def robot(cloud: Emulator) -> AsyncIterator[Robot]:
    server = TestServer(create_robot_app(cloud.cloud, {"user": "secret"}, limit=10))
    await server.start_server()
    yield Robot(server, cloud.session)
    await server.close()


async def add(cloud: Emulator, **values: Any) -> dict[str, Any]:
    return await cloud.ok("POST", "/_sandbox/robot/servers", {"name": "metal", "ip": "192.0.2.7", **values})


async def test_servers(cloud: Emulator, robot: Robot):
    assert await robot.get("/server") == (
        404,
        {"error": {"status": 404, "code": "SERVER_NOT_FOUND", "message": "No server found"}},
    )
    await add(cloud, number=123, ipv6_net="2001:db8:7::", product="AX 41")
    await add(cloud, name="other", ip="192.0.2.8")
    status, listed = await robot.get("/server")
    assert status == 200
    assert [entry["server"]["server_name"] for entry in listed] == ["metal", "other"]
    status, one = await robot.get("/server/123")
    assert one["server"]["server_ipv6_net"] == "2001:db8:7::"
    assert listed[1]["server"]["server_ipv6_net"] is None
    assert (await robot.get("/server/9"))[1]["error"]["code"] == "SERVER_NOT_FOUND"
    assert (await robot.rename(123, "node-1"))["server"]["server_name"] == "node-1"
    await cloud.ok("DELETE", "/_sandbox/robot/servers/123")
    assert (await robot.get("/server/123"))[0] == 404


async def test_the_operating_status(cloud: Emulator, robot: Robot):
    await add(cloud, number=5, operating_status="shut off")
    assert (await robot.get("/reset/5"))[1]["reset"]["operating_status"] == "shut off"


@pytest.mark.parametrize(
    "auth", [None, encode_basic_auth("user", "wrong"), encode_basic_auth("nobody", "secret")]
)
async def test_a_password_is_needed(robot: Robot, auth):
    status, body = await robot.get("/server", auth)
    assert (status, body["error"]["code"]) == (401, "UNAUTHORIZED")


async def test_requests_are_limited_by_kind(cloud: Emulator, robot: Robot):
    await add(cloud, number=5)
    statuses = [(await robot.get("/server"))[0] for _ in range(11)]
    assert statuses == [200] * 10 + [403]
    _, body = await robot.get("/server/5")
    assert body["error"]["code"] == "RATE_LIMIT_EXCEEDED"
    assert (body["error"]["max_request"], body["error"]["interval"]) == (10, 3600)
    assert (await robot.get("/reset/5"))[0] == 200


async def test_unknown_paths(robot: Robot):
    assert (await robot.get("/moon"))[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"ip": 7},
        [],
        {"ip": "not an ip"},
        {"ip": "2001:db8::7"},
        {"ip": "192.0.2.7", "ipv6_net": "192.0.2.7"},
        {"ip": "192.0.2.7", "ipv6_net": "2001:db8:7::/64"},
        {"ip": "192.0.2.7", "ipv6_net": "2001:db8:7::1"},
        {"ip": "192.0.2.7", "operating_status": "sleepy"},
        {"ip": "192.0.2.7", "product": 41},
    ],
)
async def test_servers_that_are_none(cloud: Emulator, body):
    assert (await cloud.refused("POST", "/_sandbox/robot/servers", body))["code"] == "invalid_input"
    assert (await cloud.ok("GET", "/_sandbox/robot/servers"))["servers"] == []
