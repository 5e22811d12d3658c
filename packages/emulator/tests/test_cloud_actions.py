import asyncio
from random import Random

import looptime
from cloud_emulator import OTHER_TOKEN, Emulator, Start
from multidict import MultiDict

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.durations import duration
from hetzner_emulator.api.call import Call
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.config import CloudConfig
from hetzner_emulator.resources import discover
from hetzner_emulator.resources.servers.create import create


async def test_actions_by_id(emulator: Emulator):
    first, second = [await emulator.make_server(name) for name in ("a", "b")]
    actions = await emulator.get("/servers/actions?sort=id:desc")
    ids = [action["id"] for action in actions]
    assert len(ids) == 4
    query = "&".join(f"id={identity}" for identity in ids[:2]) + "&sort=status&sort=id&page=1"
    found = await emulator.get(f"/actions?{query}&id=1")
    assert [action["id"] for action in found] == sorted(ids[:2])
    assert found[0]["resources"] == [{"id": second["id"], "type": "server"}]
    own = await emulator.get(f"{first.path}/actions?status=success")
    assert {action["command"] for action in own} == {"create_server", "start_server"}
    assert await emulator.get(f"/actions/{ids[0]}") == actions[0]
    assert await emulator.get(f"/servers/actions/{ids[0]}") == actions[0]
    assert await emulator.get(f"{second.path}/actions/{ids[0]}") == actions[0]
    for path in (f"{first.path}/actions/{ids[0]}", "/actions/1"):
        await emulator.expect("not_found", "GET", path)
    assert await emulator.get(f"/actions?id={ids[0]}", token=OTHER_TOKEN) == []
    await emulator.expect("not_found", "GET", f"/actions/{ids[0]}", token=OTHER_TOKEN)
    for query in ("id=x", "id=1&sort=color", f"id={'9' * 5000}"):
        await emulator.expect((422, "invalid_input"), "GET", f"/actions?{query}")
    await emulator.expect((422, "invalid_input"), "GET", "/servers/actions?status=late")


def test_durations_by_mode():
    randomness = Random(1)
    assert duration("create_server", "instant", randomness) == 0
    for _ in range(50):
        assert 4.8 <= duration("create_server", "realistic", randomness) <= 7.2
        assert 4.8 <= duration("add_service", "slow", randomness) <= 7.2


async def test_realistic_actions_show_their_progress(start: Start):
    emulator = await start(actions="realistic")
    answer = await emulator.ok("POST", "/networks", {"name": "n", "ip_range": "10.0.0.0/8"})
    identity = answer["network"]["id"]
    body = {"type": "cloud", "network_zone": "eu-central"}
    action = (await emulator.ok("POST", f"/networks/{identity}/actions/add_subnet", body))["action"]
    assert action["status"] == "running"
    assert 0 <= action["progress"] < 100
    assert (await emulator.get(f"/networks/{identity}"))["subnets"] == []


async def test_every_action_takes_the_set_duration(emulator: Emulator):
    path = f"/servers/{(await emulator.make_server())['id']}/actions/poweroff"
    await emulator.ok("PUT", "/_sandbox/settings", {"actions": 3600})
    assert (await emulator.ok("POST", path))["action"]["status"] == "running"
    await emulator.cloud.actions.stop()
    emulator.cloud.actions.forget()
    await emulator.ok("PUT", "/_sandbox/settings", {"actions": 0.01})
    action = (await emulator.ok("POST", path))["action"]
    async with asyncio.timeout(60):
        while (await emulator.get(f"/actions/{action['id']}"))["status"] != "success":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for wrong in (-1, 86_401, True, "fast", None):
        await emulator.expect(["actions"], "PUT", "/_sandbox/settings", {"actions": wrong})


def test_a_following_action_takes_its_own_time():
    """On a virtual clock: the start of a server begins when its creation has ended."""
    discover()
    loop = looptime.new_event_loop()

    async def scenario() -> tuple[float, float]:
        cloud = Cloud(CloudConfig(tokens={}, actions="realistic"), RecordsBackend(), loop.time, Random(1))
        await cloud.start()
        body = {"name": "a", "server_type": "cx23", "image": "debian-12"}
        await create(Call(cloud, "p", {}, MultiDict(), body, ""))
        await asyncio.sleep(60)
        first, second = sorted(cloud.store.all(Action), key=lambda action: action.id)
        await cloud.stop()
        return first.finished - first.started, second.finished - first.finished

    try:
        creation, beginning = loop.run_until_complete(scenario())
    finally:
        loop.close()
    assert 4.8 <= creation <= 7.3
    assert 2.4 <= beginning <= 3.7
