import pytest
from cloud_emulator import Emulator, Gate, Start

CLOUD = {"type": "cloud", "network_zone": "eu-central"}
VSWITCH = {**CLOUD, "type": "vswitch"}
ROUTE = {"destination": "10.244.0.0/24", "gateway": "10.0.0.2"}


async def test_a_network_with_subnets_and_routes_at_once(emulator: Emulator):
    routes = [{"destination": "10.100.1.0/24", "gateway": "10.0.1.1"}]
    body = {"name": "net", "ip_range": "10.0.0.0/16", "routes": routes, "expose_routes_to_vswitch": True}
    network = await emulator.make("/networks", **body, subnets=[CLOUD, {**CLOUD, "type": "server"}])
    assert [subnet["ip_range"] for subnet in network["subnets"]] == ["10.0.0.0/24", "10.0.1.0/24"]
    assert {subnet["gateway"] for subnet in network["subnets"]} == {"10.0.0.1"}
    assert network["routes"] == routes
    assert network["expose_routes_to_vswitch"] is True


async def test_invalid_subnets(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    for destination in ("10.244.0.0/24", "0.0.0.0/0"):
        await emulator.act(network.path, "add_route", destination=destination, gateway="10.0.0.2")
    add = f"{network.path}/actions/add_subnet"
    await emulator.deny(["ip_range"], add, **CLOUD, ip_range="10.244.0.128/25")
    await emulator.deny(["ip_range"], add, **CLOUD, ip_range="10.0.1.0/31")
    await emulator.deny(["vswitch_id"], add, **VSWITCH)
    error = await emulator.refused("POST", add, {**VSWITCH, "vswitch_id": 7})
    assert (error["code"], error["message"]) == ("service_error", "vswitch not found")
    await emulator.ok("PUT", "/_sandbox/settings", {"vswitches": [7]})
    await emulator.act(network.path, "add_subnet", **CLOUD, ip_range="10.0.1.0/30")
    await emulator.act(network.path, "add_subnet", **VSWITCH, vswitch_id=7)
    other = await emulator.make_network("other", ip_range="192.168.0.0/16")
    used = (422, "vswitch_id_already_used")
    await emulator.deny(used, f"{other.path}/actions/add_subnet", **VSWITCH, vswitch_id=7)


async def test_a_subnet_with_members_cannot_be_deleted(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    server = await emulator.make_server(networks=[network["id"]])
    delete = f"{network.path}/actions/delete_subnet"
    error = await emulator.refused("POST", delete, {"ip_range": "10.0.0.0/24"})
    assert (error["status"], error["code"]) == (422, "service_error")
    assert "servers are attached" in error["message"]
    await emulator.ok("DELETE", server.path)
    await emulator.ok("POST", delete, {"ip_range": "10.0.0.0/24"})
    await emulator.deny("not_found", delete, ip_range="10.0.0.0/24")


async def test_routes_are_added_and_deleted(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    await emulator.act(network.path, "add_route", **ROUTE)
    clash = {**ROUTE, "gateway": "10.0.0.3"}
    await emulator.deny(["destination"], f"{network.path}/actions/add_route", **clash)
    await emulator.deny("not_found", f"{network.path}/actions/delete_route", **clash)
    assert (await emulator.act(network.path, "delete_route", **ROUTE))["routes"] == []


@pytest.mark.parametrize("change", ["add_route", "delete_route"])
@pytest.mark.parametrize("invalid", ["", " ", None, "x", "10.0.0.2/33", "::1", 7])
async def test_invalid_routes(emulator: Emulator, change, invalid):
    network = await emulator.make_network("net", "10.0.0.0/24")
    for field in ("gateway", "destination"):
        await emulator.deny([field], f"{network.path}/actions/{change}", **{**ROUTE, field: invalid})


async def test_a_network_is_locked_during_a_change(start: Start):
    gate = Gate()
    emulator = await start(gate)
    network = await emulator.make_network("net", "10.0.0.0/24")
    add = f"{network.path}/actions/add_route"
    running = (await emulator.ok("POST", add, ROUTE))["action"]
    assert (running["status"], running["finished"]) == ("running", None)
    await emulator.deny((409, "conflict"), add, destination="10.244.1.0/24", gateway="10.0.0.2")
    await emulator.expect("conflict", "PUT", network.path, {"name": "x"})
    await emulator.expect("conflict", "DELETE", network.path)
    assert (await emulator.get(network.path))["routes"] == []
    gate.opened.set()
    await emulator.cloud.actions.settle()
    assert (await emulator.get(network.path))["routes"] == [ROUTE]
    done = (await emulator.ok("GET", f"{network.path}/actions/{running['id']}"))["action"]
    assert (done["status"], done["progress"]) == ("success", 100)


async def test_a_range_can_only_grow(emulator: Emulator):
    network = await emulator.make_network("net", ip_range="10.0.0.0/16")
    for wrong in ("10.0.0.0/17", "10.1.0.0/15", "10.0.0.0/7"):
        await emulator.deny("invalid_input", f"{network.path}/actions/change_ip_range", ip_range=wrong)
    changed = await emulator.act(network.path, "change_ip_range", ip_range="10.0.0.0/12")
    assert changed["ip_range"] == "10.0.0.0/12"


async def test_members_are_limited(start: Start):
    emulator = await start(limits={"network_members": 1})
    network = (await emulator.make_network("net", "10.0.0.0/24"))["id"]
    await emulator.make_server("a", networks=[network])
    server = await emulator.make_server("b")
    attach = f"{server.path}/actions/attach_to_network"
    await emulator.deny("resource_limit_exceeded", attach, network=network)


SUBNETS = [{**CLOUD, "ip_range": f"10.0.{number}.0/24"} for number in range(51)]
ROUTES = [{"destination": f"172.16.{number}.0/24", "gateway": "10.1.0.2"} for number in range(101)]


@pytest.mark.parametrize(("field", "many"), [("subnets", SUBNETS), ("routes", ROUTES)])
async def test_a_new_network_has_the_same_limits(emulator: Emulator, field, many):
    body = {"name": "net", "ip_range": "10.0.0.0/8"}
    await emulator.deny((403, "resource_limit_exceeded"), "/networks", **body, **{field: many})
    await emulator.make("/networks", **body, **{field: many[1:]})
