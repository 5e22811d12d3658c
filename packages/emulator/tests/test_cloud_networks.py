from __future__ import annotations

import pytest
from cloud_emulator import Emulator, Gate, Start


async def route(emulator: Emulator, network: int, destination: str, gateway: str = "10.0.0.2"):
    body = {"destination": destination, "gateway": gateway}
    return await emulator.ok("POST", f"/networks/{network}/actions/add_route", body)


async def test_a_network_with_subnets_and_routes_at_once(emulator: Emulator):
    body = {
        "name": "net",
        "ip_range": "10.0.0.0/16",
        "subnets": [
            {"type": "cloud", "network_zone": "eu-central"},
            {"type": "server", "network_zone": "eu-central"},
        ],
        "routes": [{"destination": "10.100.1.0/24", "gateway": "10.0.1.1"}],
        "expose_routes_to_vswitch": True,
    }
    network = (await emulator.ok("POST", "/networks", body))["network"]
    assert [(s["ip_range"], s["gateway"]) for s in network["subnets"]] == [
        ("10.0.0.0/24", "10.0.0.1"),
        ("10.0.1.0/24", "10.0.0.1"),
    ]
    assert network["routes"] == body["routes"]
    assert network["expose_routes_to_vswitch"] is True


async def test_invalid_subnets(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    await route(emulator, network["id"], "10.244.0.0/24")
    await route(emulator, network["id"], "0.0.0.0/0")
    path = f"/networks/{network['id']}/actions/add_subnet"
    subnet = {"type": "cloud", "network_zone": "eu-central"}
    for wrong, field in (
        ({"ip_range": "10.244.0.128/25"}, "ip_range"),
        ({"ip_range": "10.0.1.0/31"}, "ip_range"),
        ({"type": "vswitch"}, "vswitch_id"),
    ):
        await emulator.expect([field], "POST", path, {**subnet, **wrong})
    error = await emulator.refused("POST", path, {**subnet, "type": "vswitch", "vswitch_id": 7})
    assert (error["code"], error["message"]) == ("service_error", "vswitch not found")
    await emulator.ok("PUT", "/_sandbox/settings", {"vswitches": [7]})
    for right in ({"ip_range": "10.0.1.0/30"}, {"type": "vswitch", "vswitch_id": 7}):
        await emulator.ok("POST", path, {**subnet, **right})
    other = await emulator.make_network("other", ip_range="192.168.0.0/16")
    path = f"/networks/{other['id']}/actions/add_subnet"
    await emulator.expect(
        (422, "vswitch_id_already_used"), "POST", path, {**subnet, "type": "vswitch", "vswitch_id": 7}
    )


async def test_a_subnet_with_members_cannot_be_deleted(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    server = await emulator.make_server(networks=[network["id"]])
    path = f"/networks/{network['id']}/actions/delete_subnet"
    error = await emulator.refused("POST", path, {"ip_range": "10.0.0.0/24"})
    assert (error["status"], error["code"]) == (422, "service_error")
    assert "servers are attached" in error["message"]
    await emulator.ok("DELETE", f"/servers/{server['id']}")
    await emulator.ok("POST", path, {"ip_range": "10.0.0.0/24"})
    await emulator.expect("not_found", "POST", path, {"ip_range": "10.0.0.0/24"})


async def test_deleting_a_network_detaches_its_members(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    server = await emulator.make_server(networks=[network["id"]])
    await emulator.ok("DELETE", f"/networks/{network['id']}")
    assert (await emulator.get(f"/servers/{server['id']}"))["private_net"] == []
    await emulator.expect("not_found", "GET", f"/networks/{network['id']}")


async def test_routes_are_added_and_deleted(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    identity = network["id"]
    await route(emulator, identity, "10.244.0.0/24")
    clash = {"destination": "10.244.0.0/24", "gateway": "10.0.0.3"}
    await emulator.expect(["destination"], "POST", f"/networks/{identity}/actions/add_route", clash)
    await emulator.expect("not_found", "POST", f"/networks/{identity}/actions/delete_route", clash)
    body = {"destination": "10.244.0.0/24", "gateway": "10.0.0.2"}
    await emulator.ok("POST", f"/networks/{identity}/actions/delete_route", body)
    assert (await emulator.get(f"/networks/{identity}"))["routes"] == []


@pytest.mark.parametrize("change", ["add_route", "delete_route"])
@pytest.mark.parametrize("invalid", ["", " ", None, "x", "10.0.0.2/33", "::1", 7])
async def test_invalid_routes(emulator: Emulator, change, invalid):
    network = await emulator.make_network("net", "10.0.0.0/24")
    path = f"/networks/{network['id']}/actions/{change}"
    for field in ("gateway", "destination"):
        body = {"destination": "10.244.0.0/24", "gateway": "10.0.0.2", field: invalid}
        error = await emulator.refused("POST", path, body)
        assert (error["status"], error["code"]) == (422, "invalid_input")
        assert [wrong["name"] for wrong in error["details"]["fields"]] == [field]


async def test_a_network_is_locked_during_a_change(start: Start):
    gate = Gate()
    emulator = await start(gate)
    network = await emulator.make_network("net", "10.0.0.0/24")
    identity = network["id"]
    running = (await route(emulator, identity, "10.244.0.0/24"))["action"]
    assert running["status"] == "running"
    assert running["finished"] is None
    body = {"destination": "10.244.1.0/24", "gateway": "10.0.0.2"}
    await emulator.expect((409, "conflict"), "POST", f"/networks/{identity}/actions/add_route", body)
    await emulator.expect("conflict", "PUT", f"/networks/{identity}", {"name": "x"})
    await emulator.expect("conflict", "DELETE", f"/networks/{identity}")
    assert (await emulator.get(f"/networks/{identity}"))["routes"] == []
    gate.opened.set()
    await emulator.cloud.actions.settle()
    assert len((await emulator.get(f"/networks/{identity}"))["routes"]) == 1
    done = await emulator.get(f"/networks/{identity}/actions/{running['id']}")
    assert (done["status"], done["progress"]) == ("success", 100)


async def test_a_range_can_only_grow(emulator: Emulator):
    network = await emulator.make_network("net", ip_range="10.0.0.0/16")
    path = f"/networks/{network['id']}/actions/change_ip_range"
    for wrong in ("10.0.0.0/17", "10.1.0.0/15", "10.0.0.0/7"):
        await emulator.expect("invalid_input", "POST", path, {"ip_range": wrong})
    await emulator.ok("POST", path, {"ip_range": "10.0.0.0/12"})
    assert (await emulator.get(f"/networks/{network['id']}"))["ip_range"] == "10.0.0.0/12"


async def test_members_are_limited(start: Start):
    emulator = await start(limits={"network_members": 1})
    network = await emulator.make_network("net", "10.0.0.0/24")
    await emulator.make_server("a", networks=[network["id"]])
    server = await emulator.make_server("b")
    path = f"/servers/{server['id']}/actions/attach_to_network"
    await emulator.expect("resource_limit_exceeded", "POST", path, {"network": network["id"]})


@pytest.mark.parametrize("what", ["subnets", "routes"])
async def test_a_new_network_has_the_same_limits(emulator: Emulator, what):
    many = {
        "subnets": [
            {"type": "cloud", "network_zone": "eu-central", "ip_range": f"10.0.{number}.0/24"}
            for number in range(51)
        ],
        "routes": [{"destination": f"172.16.{n}.0/24", "gateway": "10.1.0.2"} for n in range(101)],
    }
    body = {"name": "net", "ip_range": "10.0.0.0/8", what: many[what]}
    await emulator.expect((403, "resource_limit_exceeded"), "POST", "/networks", body)
    await emulator.ok("POST", "/networks", {**body, what: many[what][1:]})
