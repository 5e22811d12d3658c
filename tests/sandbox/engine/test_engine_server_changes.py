"""Changes for which a server is powered off: afterwards it is on, whatever failed."""

from __future__ import annotations

import pytest
from engine_cloud import EmulatedCloud
from engine_lab import TOKEN

from sandbox.engine.errors import ProviderError
from sandbox.engine.providers.hcloud.api import Api, Settings
from sandbox.engine.providers.hcloud.server import Server

SMALL = {"name": "w", "serverType": "cpx22", "image": "debian-13", "location": "fsn1"}
LARGE = {**SMALL, "serverType": "cpx32"}


@pytest.fixture
def api(cloud: EmulatedCloud) -> Api:
    return Api(Settings(TOKEN, cloud.endpoint, poll_interval=0.05, exponential=False))


def seen(cloud: EmulatedCloud, identity: str) -> tuple[str, str, int | None]:
    server = cloud.get(f"/servers/{identity}")["server"]
    return server["status"], server["server_type"]["name"], (server["placement_group"] or {}).get("id")


def group(cloud: EmulatedCloud, name: str) -> int:
    return cloud.send("POST", "/placement_groups", {"name": name, "type": "spread"})["placement_group"]["id"]


def refuse(cloud: EmulatedCloud, action: str) -> None:
    path = f"/servers/*/actions/{action}"
    cloud.admin("POST", "/faults", {"path": path, "code": "resource_unavailable", "times": 1})


def test_a_type_that_is_sold_out_leaves_the_server_on(cloud: EmulatedCloud, api: Api) -> None:
    made = Server().create(api, SMALL)
    refuse(cloud, "change_type")
    with pytest.raises(ProviderError, match="resource_unavailable"):
        Server().change(api, made["id"], SMALL, LARGE, ["serverType"])
    assert seen(cloud, made["id"]) == ("running", "cpx22", None)
    Server().change(api, made["id"], SMALL, LARGE, ["serverType"])
    assert seen(cloud, made["id"]) == ("running", "cpx32", None)


def test_what_a_killed_run_left_off_is_on_after_the_next_one(cloud: EmulatedCloud, api: Api) -> None:
    made = Server().create(api, SMALL)
    api.act(f"/servers/{made['id']}/actions/poweroff")
    api.act(f"/servers/{made['id']}/actions/change_type", {"server_type": "cpx32", "upgrade_disk": True})
    api.act(f"/servers/{made['id']}/actions/poweroff")
    Server().change(api, made["id"], SMALL, LARGE, ["serverType"])
    assert seen(cloud, made["id"]) == ("running", "cpx32", None)


def test_a_move_that_failed_half_way_is_finished(cloud: EmulatedCloud, api: Api) -> None:
    first, second = group(cloud, "a"), group(cloud, "b")
    here, there = {**SMALL, "placementGroupId": first}, {**LARGE, "placementGroupId": second}
    keys = ["placementGroupId", "serverType"]
    made = Server().create(api, here)
    for action, left in (("add_to_placement_group", None), ("change_type", second)):
        refuse(cloud, action)
        with pytest.raises(ProviderError, match="resource_unavailable"):
            Server().change(api, made["id"], here, there, keys)
        assert seen(cloud, made["id"]) == ("running", "cpx22", left)
    Server().change(api, made["id"], here, there, keys)
    assert seen(cloud, made["id"]) == ("running", "cpx32", second)
    alone = {**LARGE}
    Server().change(api, made["id"], there, alone, ["placementGroupId"])
    assert seen(cloud, made["id"]) == ("running", "cpx32", None)
