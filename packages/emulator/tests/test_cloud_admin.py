import asyncio

import pytest
from cloud_emulator import Emulator, Start

from hetzner_emulator.traffic.requests import MAX_COUNTED, MAX_TEXT, OTHERS, Request, RequestLog


async def test_requests_are_counted_by_operation(emulator: Emulator):
    await emulator.make_server()
    for _ in range(3):
        await emulator.ok("GET", "/servers")
    await emulator.call("GET", "/nothing")
    counts = await emulator.ok("GET", "/_sandbox/requests/counts")
    assert counts == {"total": 5, "operations": {"POST /servers": 1, "GET /servers": 3, "GET /nothing": 1}}
    only = await emulator.ok("GET", "/_sandbox/requests/counts?operation=POST*")
    assert only == {"total": 1, "operations": {"POST /servers": 1}}
    log = await emulator.ok("GET", "/_sandbox/requests?limit=2")
    assert [entry["path"] for entry in log["requests"]] == ["/nothing", "/servers"]
    assert log["requests"][0]["code"] == "not_found"
    await emulator.ok("DELETE", "/_sandbox/requests")
    assert (await emulator.ok("GET", "/_sandbox/requests/counts"))["total"] == 0


def asked(text: str) -> Request:
    return Request(0.0, "", f"GET /{text}", "GET", f"/{text}", "", 404, "", 0.0, "", text)


def test_the_number_of_counted_operations_is_limited():
    log = RequestLog(10)
    for number in range(MAX_COUNTED + 20):
        log.add(asked(str(number)))
    log.add(asked("0"))
    assert (log.counts["GET /0"], log.counts[OTHERS]) == (2, 20)
    assert log.total == log.counts.total() == MAX_COUNTED + 21
    assert [request.correlation_id for request in log.select(lambda _: True)][-2:] == ["1019", "0"]
    assert len(log.latest(100, lambda _: True)) == 10


async def test_the_log_cuts_long_texts(emulator: Emulator):
    path = "/" + "a" * 3000
    await emulator.refused("GET", f"{path}?q={'b' * 3000}", token=None)
    (entry,) = emulator.cloud.requests.latest(1, lambda _: True)
    assert [len(entry[name]) for name in ("operation", "path", "query")] == [MAX_TEXT] * 3


async def test_a_header_that_is_not_utf_8_leaves_the_log_readable(emulator: Emulator):
    reader, writer = await asyncio.open_connection(emulator.server.host, emulator.server.port)
    head = b"Host: localhost\r\nUser-Agent: \xc3\xa4\xff/1\r\nConnection: close"
    writer.write(b"GET /v1/x HTTP/1.1\r\n" + head + b"\r\n\r\n")
    assert b"404" in await reader.readline()
    writer.close()
    for call in ("requests", "overview"):
        (entry,) = (await emulator.ok("GET", f"/_sandbox/{call}"))["requests"]
        assert entry["user_agent"] == "\u00e4?/1"


async def test_health_and_logs_without_tokens(emulator: Emulator):
    health = await emulator.ok("GET", "/_sandbox/health")
    assert (health["status"], health["backend"]) == ("ok", "records")
    await emulator.ok("GET", "/servers")
    for path in ("requests", "state"):
        assert "tttt" not in str(await emulator.ok("GET", f"/_sandbox/{path}"))


async def test_settings_change_at_run_time(start: Start):
    emulator = await start(rate_limit=0)
    await emulator.ok("PUT", "/_sandbox/settings", {"rate_limit": 100, "limits": {"networks": 0}})
    await emulator.deny("resource_limit_exceeded", "/networks", name="n", ip_range="10.0.0.0/8")
    await emulator.ok("PUT", "/_sandbox/settings", {"rate_limit_remaining": 0})
    await emulator.expect("rate_limit_exceeded", "GET", "/servers")
    settings = await emulator.ok("PUT", "/_sandbox/settings", {"rate_limit": 0})
    assert settings["rate_limit"] == 0
    await emulator.ok("GET", "/servers")


SETTINGS = [
    {"actions": "never"},
    {"limits": {"moons": 1}},
    {"limits": {"servers": True}},
    *({"sold_out": {"cpx22": places}} for places in (["ash"], "fsn1", [["fsn1"]])),
    *({"sold_out": value} for value in ({"cx1": ["fsn1"]}, "2025-01")),
    {"foo": 1},
    {"actions": "slow", "soldout": {}},
    [],
]
ROBOTS = [
    *({"ip": "192.0.2.7", "ipv6_net": net} for net in ("192.0.2.7", "2001:db8:7::/64", "2001:db8:7::1")),
    *({"ip": ip} for ip in (7, "not an ip", "2001:db8::7")),
    {"ip": "192.0.2.7", "operating_status": "sleepy"},
    {"ip": "192.0.2.7", "product": 41},
    {},
    [],
]
CALLS = [("PUT", "settings", body) for body in SETTINGS]
CALLS += [("POST", "robot/servers", body) for body in ROBOTS]


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
async def test_wrong_settings_and_robot_servers(emulator: Emulator, method, path, body):
    before = await emulator.ok("GET", "/_sandbox/settings")
    await emulator.expect("invalid_input", method, f"/_sandbox/{path}", body)
    assert await emulator.ok("GET", "/_sandbox/settings") == before
    assert await emulator.get("/_sandbox/robot/servers") == []


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("PUT", "/settings", {"rate_limitt": 1}, "rate_limitt"),
        ("PUT", "/tokens", {"token": "n" * 64, "project": "new", "readonly": True}, "readonly"),
        ("DELETE", "/tokens", {"token": "n" * 64, "project": "new"}, "project"),
        ("POST", "/robot/servers", {"ip": "192.0.2.7", "id": 5}, "id"),
        ("GET", "/requests?opperation=x", None, "opperation"),
        ("GET", "/requests/counts?agent=x", None, "agent"),
        ("GET", "/state?kinds=server", None, "kinds"),
        ("DELETE", "/requests?path=x", None, "path"),
    ],
)
async def test_unknown_fields_and_parameters_are_refused(emulator: Emulator, method, path, body, field):
    error = await emulator.refused(method, f"/_sandbox{path}", body)
    assert f"'{field}': unknown; allowed: " in error["message"]


async def test_unknown_kinds_servers_and_values_are_refused(emulator: Emulator):
    error = await emulator.refused("GET", "/_sandbox/state?kind=server&kind=moon")
    assert "'moon' isn't a kind of object; allowed: action" in error["message"]
    error = await emulator.refused("POST", "/_sandbox/servers/99/events/off")
    assert (error["status"], error["message"]) == (404, "server with ID '99' not found")
    for query in ("limit=x", "since=yesterday", "limit=inf", "limit=-1", "since=nan"):
        await emulator.expect("invalid_input", "GET", f"/_sandbox/requests?{query}")


async def test_tokens_come_and_go_at_run_time(emulator: Emulator):
    await emulator.make_server()
    token = {"token": "n" * 64, "project": "new"}
    assert "new" in (await emulator.ok("PUT", "/_sandbox/tokens", token))["projects"]
    assert await emulator.get("/servers", token="n" * 64) == []
    await emulator.ok("PUT", "/_sandbox/tokens", {**token, "project": "default", "read_only": True})
    assert len(await emulator.get("/servers", token="n" * 64)) == 1
    group = {"name": "g", "type": "spread"}
    await emulator.expect("forbidden", "POST", "/placement_groups", group, token="n" * 64)
    await emulator.ok("DELETE", "/_sandbox/tokens", {"token": "n" * 64})
    await emulator.expect("unauthorized", "GET", "/servers", token="n" * 64)
    await emulator.expect("invalid_input", "PUT", "/_sandbox/tokens", {})


async def test_robot_servers(emulator: Emulator):
    robot = "/_sandbox/robot/servers"
    body = {"name": "metal", "ip": "192.0.2.7", "number": 123, "ipv6_net": "2001:db8:7::", "product": "AX 41"}
    added = await emulator.ok("POST", robot, body)
    assert (added["server_number"], added["server_ipv6_net"]) == (123, "2001:db8:7::")
    await emulator.ok("POST", robot, {"name": "other", "ip": "192.0.2.8"})
    names = [server["server_name"] for server in (await emulator.ok("GET", robot))["servers"]]
    assert names == ["metal", "other"]
    await emulator.ok("DELETE", f"{robot}/123")
    await emulator.expect("not_found", "DELETE", f"{robot}/123")
