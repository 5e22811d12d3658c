from __future__ import annotations

import asyncio
import sys

import pytest
from cloud_emulator import Emulator, Start

from hetzner_emulator.traffic.requests import LONGEST, MOST_COUNTED, OTHERS, Request, RequestLog


async def test_health(emulator: Emulator):
    health = await emulator.ok("GET", "/_sandbox/health")
    assert (health["status"], health["backend"]) == ("ok", "records")


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


def test_no_client_makes_the_counts_grow_without_end():
    log = RequestLog(10)
    for number in range(MOST_COUNTED + 20):
        log.add(Request(0.0, "", f"GET /{number}", "GET", f"/{number}", "", 404, "", 0.0, "", ""))
    log.add(Request(0.0, "", "GET /0", "GET", "/0", "", 404, "", 0.0, "", ""))
    assert (log.counts["GET /0"], log.counts[OTHERS]) == (2, 20)
    assert (log.total, log.counts.total()) == (MOST_COUNTED + 21, MOST_COUNTED + 21)


async def test_of_what_clients_choose_the_log_keeps_no_more_than_means_something(emulator: Emulator):
    path = "/" + "a" * 3000
    await emulator.refused("GET", f"{path}?q={'b' * 3000}", token=None)
    (entry,) = emulator.cloud.requests.latest(1, lambda _: True)
    assert {name: len(entry[name]) for name in ("operation", "path", "query")} == dict.fromkeys(
        ("operation", "path", "query"), LONGEST
    )


async def test_a_header_that_is_no_text_leaves_the_log_readable(emulator: Emulator):
    """Anybody on this host can send one, without a token."""
    reader, writer = await asyncio.open_connection(emulator.server.host, emulator.server.port)
    writer.write(
        b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\nUser-Agent: \xc3\xa4\xff/1\r\nConnection: close\r\n\r\n"
    )
    assert b"404" in await reader.readline()
    writer.close()
    for call in ("requests", "overview"):
        (entry,) = (await emulator.ok("GET", f"/_sandbox/{call}"))["requests"]
        assert entry["user_agent"] == "\u00e4?/1"


def asked(text: str, number: int = 0) -> Request:
    return Request(0.0, "", f"GET /{text}", "GET", f"/{text}", text, 404, "", 0.0, text, str(number))


EMPTY = sys.getsizeof("\U0001f600") - 4


def memory(kept: list[Request]) -> int:
    """Without what a text takes that is empty."""
    texts = [t for r in kept for t in (r.operation, r.method, r.path, r.query, r.user_agent)]
    return sum(sys.getsizeof(text) - EMPTY for text in texts)


def test_texts_of_clients_take_so_much_memory_only():
    most, log = 100_000, RequestLog(1000, 100_000)
    for number in range(1000):
        log.add(asked("\U0001f600" * LONGEST, number))
        assert memory(list(log.select(lambda _: True))) <= most
    kept = list(log.select(lambda _: True))
    assert memory(kept) > 0.8 * most
    assert [int(request.correlation_id) for request in kept] == [*range(1000 - len(kept), 1000)]
    for number in range(1000, 2000):
        log.add(asked("a", number))
    assert [int(r.correlation_id) for r in log.select(lambda _: True)] == [*range(1000, 2000)]


def test_the_latest_request_is_kept_whatever_it_takes_and_the_log_starts_afresh():
    log = RequestLog(1000, 100)
    for number in range(3):
        log.add(asked("a" * LONGEST, number))
    assert [request.correlation_id for request in log.select(lambda _: True)] == ["2"]
    log = RequestLog(1000, 1000)
    for number in range(10):
        log.add(asked("a", number))
    log.clear()
    log.add(asked("a"))
    log.add(asked("a"))
    assert len(list(log.select(lambda _: True))) == 2


def test_the_log_keeps_so_many_requests():
    log = RequestLog(100)
    for number in range(250):
        log.add(asked("\u00e4", number))
    assert [request.correlation_id for request in log.select(lambda _: True)] == [
        str(n) for n in range(150, 250)
    ]
    assert log.total == 250


async def test_requests_by_client(emulator: Emulator):
    await emulator.official(lambda client: client.locations.get_all())
    await emulator.ok("GET", "/locations")
    counts = await emulator.ok("GET", "/_sandbox/requests/counts?user_agent=hcloud-python*")
    assert counts["total"] == 1


async def test_tokens_are_not_logged(emulator: Emulator):
    await emulator.ok("GET", "/servers")
    text = str(await emulator.ok("GET", "/_sandbox/requests")) + str(
        await emulator.ok("GET", "/_sandbox/state")
    )
    assert "tttt" not in text


async def test_settings_change_at_run_time(start: Start):
    emulator = await start(rate_limit=0)
    await emulator.ok("PUT", "/_sandbox/settings", {"rate_limit": 100, "limits": {"networks": 0}})
    error = await emulator.refused("POST", "/networks", {"name": "n", "ip_range": "10.0.0.0/8"})
    assert error["code"] == "resource_limit_exceeded"
    await emulator.ok("PUT", "/_sandbox/settings", {"rate_limit_remaining": 0})
    assert (await emulator.refused("GET", "/servers"))["code"] == "rate_limit_exceeded"
    settings = await emulator.ok("PUT", "/_sandbox/settings", {"rate_limit": 0})
    assert settings["rate_limit"] == 0
    await emulator.ok("GET", "/servers")


@pytest.mark.parametrize(
    "body",
    [
        {"actions": "never"},
        {"limits": {"moons": 1}},
        {"limits": {"servers": True}},
        {"sold_out": {"cx1": ["fsn1"]}},
        {"sold_out": "2025-01"},
        {"sold_out": {"cpx22": ["ash"]}},
        {"sold_out": {"cpx22": "fsn1"}},
        {"sold_out": {"cpx22": [["fsn1"]]}},
        {"foo": 1},
        {"actions": "slow", "soldout": {}},
        [],
    ],
)
async def test_wrong_settings(emulator: Emulator, body):
    before = await emulator.ok("GET", "/_sandbox/settings")
    assert (await emulator.refused("PUT", "/_sandbox/settings", body))["code"] == "invalid_input"
    assert await emulator.ok("GET", "/_sandbox/settings") == before


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
async def test_what_is_misspelt_is_told_with_what_there_is(emulator: Emulator, method, path, body, field):
    error = await emulator.refused(method, f"/_sandbox{path}", body)
    assert f"'{field}': unknown; allowed: " in error["message"]


async def test_things_that_are_not_there_are_told(emulator: Emulator):
    error = await emulator.refused("GET", "/_sandbox/state?kind=server&kind=moon")
    assert "'moon' is none; there are: action" in error["message"]
    error = await emulator.refused("POST", "/_sandbox/servers/99/events/off")
    assert (error["status"], error["message"]) == (404, "server with ID '99' not found")


async def test_wrong_queries_are_clear_errors(emulator: Emulator):
    for query in ("limit=x", "since=yesterday", "limit=inf", "limit=-1", "since=nan"):
        assert (await emulator.refused("GET", f"/_sandbox/requests?{query}"))["code"] == "invalid_input"


async def test_the_state_can_be_exported(emulator: Emulator):
    await emulator.make_server()
    state = await emulator.ok("GET", "/_sandbox/state?kind=server")
    assert [server["name"] for server in state["server"]] == ["web"]


async def test_the_console_shows_everything(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    await emulator.make_server(networks=[network["id"]])
    body = {"name": "lb", "load_balancer_type": "lb11", "location": "fsn1"}
    await emulator.ok("POST", "/load_balancers", body)
    response = await emulator.call("GET", "/_sandbox/console")
    assert response.content_type == "text/html"
    shown = await emulator.ok("GET", "/_sandbox/overview")
    assert shown["servers"][0]["private"][0]["ip"] == "10.0.0.2"
    assert shown["networks"][0]["name"] == "net"
    assert shown["load_balancers"][0]["name"] == "lb"
    assert shown["requests"]
    assert shown["actions"]


async def test_tokens_come_and_go_at_run_time(emulator: Emulator):
    await emulator.make_server()
    token = {"token": "n" * 64, "project": "new"}
    assert "new" in (await emulator.ok("PUT", "/_sandbox/tokens", token))["projects"]
    assert (await emulator.ok("GET", "/servers", token="n" * 64))["servers"] == []
    await emulator.ok("PUT", "/_sandbox/tokens", {**token, "project": "default", "read_only": True})
    assert len((await emulator.ok("GET", "/servers", token="n" * 64))["servers"]) == 1
    group = {"name": "g", "type": "spread"}
    assert (await emulator.refused("POST", "/placement_groups", group, token="n" * 64))["code"] == "forbidden"
    await emulator.ok("DELETE", "/_sandbox/tokens", {"token": "n" * 64})
    assert (await emulator.refused("GET", "/servers", token="n" * 64))["code"] == "unauthorized"
    assert (await emulator.refused("PUT", "/_sandbox/tokens", {}))["code"] == "invalid_input"
