import asyncio
from typing import Any

import aiohttp
import pytest
from cloud_emulator import OTHER_TOKEN, Emulator
from hypothesis import given
from hypothesis import strategies as st

from hetzner_emulator.traffic.faults import Faults

GROUP = {"name": "g", "type": "spread"}


async def inject(emulator: Emulator, **rule: Any) -> dict[str, Any]:
    return await emulator.ok("POST", "/_sandbox/faults", rule)


async def count(emulator: Emulator) -> int:
    await emulator.ok("DELETE", "/_sandbox/faults")
    return len(await emulator.get("/placement_groups"))


@pytest.mark.parametrize("after", [False, True])
async def test_an_error_before_or_after_the_effect(emulator: Emulator, after):
    await inject(emulator, method="POST", path="/placement_groups", code="unavailable", after=after, times=1)
    await emulator.expect((503, "unavailable"), "POST", "/placement_groups", GROUP)
    assert await count(emulator) == int(after)


@pytest.mark.parametrize(("drop", "left"), [("before", 0), ("after", 1)])
async def test_a_dropped_connection(emulator: Emulator, drop, left):
    await inject(emulator, method="POST", drop=drop)
    with pytest.raises(aiohttp.ClientError):
        await emulator.call("POST", "/placement_groups", GROUP)
    assert await count(emulator) == left
    log = await emulator.ok("GET", "/_sandbox/requests?method=POST")
    assert log["requests"][0]["status"] == 0


async def test_a_held_response(emulator: Emulator):
    await inject(emulator, method="POST", hold=600.0)
    asking = asyncio.create_task(emulator.call("POST", "/placement_groups", GROUP))
    while not await emulator.get("/placement_groups"):  # noqa: ASYNC110 - a store
        await asyncio.sleep(0.01)
    assert not asking.done()
    asking.cancel()
    await asyncio.wait({asking})


async def test_times_and_skip(emulator: Emulator):
    rule = await inject(emulator, path="/servers*", status=500, times=2, skip=1)
    statuses = [(await emulator.call("GET", "/servers")).status for _ in range(5)]
    assert statuses == [200, 500, 500, 200, 200]
    (listed,) = await emulator.get("/_sandbox/faults")
    assert (listed["id"], listed["seen"], listed["hits"]) == (rule["id"], 5, 2)
    await emulator.ok("DELETE", f"/_sandbox/faults/{rule['id']}")
    assert await emulator.get("/_sandbox/faults") == []


async def test_rules_by_template(emulator: Emulator):
    server = await emulator.make_server()
    await inject(emulator, path="/servers/{id}", code="timeout")
    assert (await emulator.refused("GET", server.path))["status"] == 504
    await emulator.ok("GET", "/servers")


async def test_incomplete_listings(emulator: Emulator):
    for number in range(4):
        await emulator.ok("POST", "/placement_groups", {"name": f"g{number}", "type": "spread"})
    await inject(emulator, path="/placement_groups", truncated_page=True, times=1)
    answer = await emulator.ok("GET", "/placement_groups")
    assert len(answer["placement_groups"]) == 2
    assert answer["meta"]["pagination"]["total_entries"] == 4
    await inject(emulator, path="/placement_groups", empty_listing=True, times=1)
    answer = await emulator.ok("GET", "/placement_groups")
    assert (answer["placement_groups"], answer["meta"]["pagination"]["total_entries"]) == ([], 0)


async def test_stale_responses_belong_to_a_project(emulator: Emulator):
    await emulator.ok("POST", "/placement_groups", GROUP)
    await inject(emulator, path="/placement_groups", method="GET", stale=True)
    other = await inject(emulator, path="/locations", method="GET", stale=True)
    assert len(await emulator.get("/placement_groups")) == 1
    answer = await emulator.ok("GET", "/placement_groups", token=OTHER_TOKEN)
    assert answer["placement_groups"] == []
    # Lifting another rule makes nothing fresh.
    await emulator.ok("POST", "/placement_groups", GROUP, token=OTHER_TOKEN)
    await emulator.ok("DELETE", f"/_sandbox/faults/{other['id']}")
    answer = await emulator.ok("GET", "/placement_groups", token=OTHER_TOKEN)
    assert answer["placement_groups"] == []
    await emulator.ok("DELETE", "/_sandbox/faults")
    assert len(await emulator.get("/placement_groups", token=OTHER_TOKEN)) == 1


async def test_broken_and_late_answers(emulator: Emulator):
    await inject(emulator, path="/locations", truncated_body=True, times=1)
    with pytest.raises(aiohttp.ClientPayloadError):
        await emulator.call("GET", "/locations")
    await inject(emulator, path="/locations", status=502, raw=True, times=1)
    response = await emulator.call("GET", "/locations")
    assert (response.status, response.content_type) == (502, "text/html")
    await inject(emulator, path="/locations", latency=0.05)
    await emulator.ok("GET", "/locations")
    log = await emulator.ok("GET", "/_sandbox/requests?path=/locations")
    assert log["requests"][0]["seconds"] >= 0.05


async def test_a_failed_action(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    server = await emulator.make_server()
    await inject(emulator, command="attach_*", code="timeout", message="network is down", times=1)
    path, body = f"{server.path}/actions/attach_to_network", {"network": network["id"]}
    answer = await emulator.ok("POST", path, body)
    assert answer["action"]["error"] == {"code": "timeout", "message": "network is down"}
    assert await emulator.get(f"{network.path}/members") == []
    await emulator.ok("POST", path, body)


async def test_a_server_whose_attachment_fails_is_off_and_can_be_started(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    await inject(emulator, command="attach_*", code="timeout", times=1)
    server = await emulator.make_server(networks=[network["id"]])
    assert (await emulator.get(server.path))["status"] == "off"
    await emulator.act(server.path, "poweron")
    assert (await emulator.get(server.path))["status"] == "running"


LOCKED, ATTACH = {"code": "locked"}, {"command": "attach_*"}
LATE, SERVERS = LOCKED | {"after": True}, {"path": "/servers"}
INVALID: dict[str, list[Any]] = {
    "body": [[], {}, {"path": "/servers", "times": 2, "drop": "", "status": 0, "after": False}],
    "color": [{"color": 1}],
    "id": [{"id": 1}],
    "times": [{"times": "x"}, LOCKED | {"times": True}, LOCKED | {"times": 0}],
    "seed": [LOCKED | {"seed": True}],
    "code": [{"code": None}, LOCKED | {"drop": "before"}],
    "drop": [{"drop": "now"}, ATTACH | {"drop": "after"}],
    "after": [{"after": 1}, {"latency": 1, "after": True}, {"drop": "after", "after": True}],
    "status": [{"status": 99}, ATTACH | {"status": 500}],
    "latency": [{"latency": -1}, {"latency": 1e308}, {"latency": True}, ATTACH | {"latency": 2}],
    "hold": [{"hold": 3601}, {"drop": "before", "hold": 1}, LOCKED | {"hold": 1}],
    "probability": [{"probability": 1.5}, LOCKED | {"probability": 0}],
    "method": [{"method": "post"}],
    "path": [{"path": "servers"}, {"path": "/v1/servers/{id}"}, {"path": ""}, LOCKED | ATTACH | SERVERS],
    "stale": [{"method": "POST", "stale": True}, {"status": 500, "stale": True}],
    "empty_listing": [{"method": "[!G]*", "empty_listing": True}, LATE | {"empty_listing": True}],
    "truncated_page": [{"stale": True, "truncated_page": True}],
    "message": [SERVERS | {"message": "boom"}, {"status": 502, "raw": True, "message": "boom"}],
}


@pytest.mark.parametrize(("field", "rule"), [(field, rule) for field in INVALID for rule in INVALID[field]])
async def test_invalid_and_ineffective_rules_are_refused(emulator: Emulator, rule, field):
    await emulator.expect([field], "POST", "/_sandbox/faults", rule)
    assert await emulator.get("/_sandbox/faults") == []


@pytest.mark.parametrize(
    "rule",
    [
        {"code": "locked", "status": 418, "message": "no", "after": True, "hold": 1, "times": None},
        {"status": 500, "truncated_body": True, "probability": 0.5, "seed": 7},
        {"drop": "after", "hold": 1, "latency": 1, "skip": 2},
        {"command": "attach_*", "message": "no"},
        {"command": "[!ab]*[]]", "method": "*"},
        {"method": "G*", "path": "/servers/[0-9]", "stale": True, "truncated_body": True},
        {"raw": True},
    ],
)
async def test_valid_rules(emulator: Emulator, rule):
    added = await inject(emulator, **rule)
    assert {name: added[name] for name in rule} == rule


async def test_removing_an_unknown_rule(emulator: Emulator):
    await inject(emulator, path="/servers", code="locked")
    error = await emulator.refused("DELETE", "/_sandbox/faults/99")
    assert (error["status"], error["message"]) == (404, "fault rule with ID '99' not found")
    assert len(await emulator.get("/_sandbox/faults")) == 1


@given(st.integers(), st.floats(0.05, 0.95), st.integers(0, 5), st.none() | st.integers(1, 5))
def test_a_seed_makes_faults_reproducible(seed, probability, skip, times):
    def hits() -> list[bool]:
        faults = Faults()
        rule = {"probability": probability, "seed": seed, "skip": skip, "times": times, "code": "locked"}
        faults.add(rule)
        return [faults.for_request("GET", "/x", "/x") is not None for _ in range(30)]

    first = hits()
    assert first == hits()
    assert not any(first[:skip])
    assert times is None or sum(first) <= times
