import asyncio
from ipaddress import IPv4Network, IPv6Network
from urllib.parse import parse_qs, urlsplit

from cloud_emulator import BY_LABEL, NOWHERE, SERVER, Emulator, Gate, Start

from hetzner_emulator.backend import BackendError


async def test_a_new_server(emulator: Emulator):
    body = {"name": "web", "server_type": "109", "image": "ubuntu-24.04", "labels": {"a": "b"}}
    answer = await emulator.ok("POST", "/servers", body)
    assert answer["action"]["command"] == "create_server"
    assert [action["command"] for action in answer["next_actions"]] == ["start_server"]
    assert len(answer["root_password"]) == 20
    server = answer["server"]
    assert server["server_type"]["name"] == "cpx22"
    assert "datacenter" not in server
    assert server["location"]["network_zone"] == "eu-central"
    assert server["public_net"]["ipv4"]["ip"] == "198.18.0.4"
    assert server["public_net"]["ipv4"]["dns_ptr"] == "static.4.0.18.198.clients.your-server.de"
    assert server["private_net"] == []


async def test_the_largest_user_data(emulator: Emulator):
    server = await emulator.make_server(user_data="x" * (32 * 1024))
    rebuild = f"{server.path}/actions/rebuild"
    await emulator.ok("POST", rebuild, {"image": "debian-12", "user_data": "ä" * (16 * 1024)})
    for path, body in (("/servers", SERVER), (rebuild, {"image": "debian-12"})):
        await emulator.deny(["user_data"], path, **body, user_data="ä" * (16 * 1024 + 1))  # bytes count


async def test_names_are_unique_in_a_project_and_at_most_as_long_as_a_hostname(emulator: Emulator):
    first, second = await emulator.make_server("a"), await emulator.make_server("b")
    error = await emulator.refused("PUT", second.path, {"name": "a"})
    assert (error["status"], error["code"]) == (409, "uniqueness_error")
    assert error["details"] == {"fields": [{"name": "name"}]}
    renamed = await emulator.ok("PUT", first.path, {"name": "c", "labels": {"x": ""}})
    assert (renamed["server"]["name"], renamed["server"]["labels"]) == ("c", {"x": ""})
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    server = await emulator.make_server(longest)
    renamed = await emulator.ok("PUT", server.path, {"name": f"z{longest[1:]}"})
    assert len(renamed["server"]["name"]) == 253
    for method, path in (("POST", "/servers"), ("PUT", server.path)):
        await emulator.expect(["name"], method, path, {**SERVER, "name": f"{longest}d"})


async def test_no_capacity(start: Start):
    emulator = await start(sold_out=frozenset({("cx23", "fsn1")}))
    await emulator.deny((412, "resource_unavailable"), "/servers", **SERVER, location="fsn1")
    elsewhere = await emulator.make_server(location=None)
    assert elsewhere["location"]["name"] == "nbg1"
    (kind,) = await emulator.get("/server_types?name=cx23")
    assert [place["available"] for place in kind["locations"]] == [False, True, True]
    settings = await emulator.ok("PUT", "/_sandbox/settings", {"sold_out": {"cx23": ["hel1", "nbg1"]}})
    assert settings["sold_out"] == {"cx23": ["hel1", "nbg1"]}
    assert (await emulator.ok("PUT", "/_sandbox/settings", {}))["sold_out"] == settings["sold_out"]
    (kind,) = await emulator.get("/server_types?name=cx23")
    assert [place["available"] for place in kind["locations"]] == [True, False, False]
    settings = await emulator.ok("PUT", "/_sandbox/settings", {"sold_out": "2026-09"})
    assert {"cx23", "cx53", "cax11", "cax41"} <= settings["sold_out"].keys()
    assert not {"cpx12", "cpx22", "ccx13"} & settings["sold_out"].keys()


async def test_server_types_as_at_hetzner(emulator: Emulator):
    """As the acceptance tests of Terraform's provider and Hetzner's collection for Ansible expect it."""
    kinds = await emulator.get("/server_types?per_page=50")
    by_name = {kind["name"]: kind for kind in kinds}
    assert [(kind["id"], kind["description"]) for kind in kinds[:2]] == [(22, "CPX 11"), (23, "CPX 21")]
    assert (by_name["cpx22"]["id"], by_name["cpx22"]["category"]) == (109, "regular_purpose")
    assert [place["name"] for place in by_name["cpx22"]["locations"]] == ["fsn1", "nbg1", "hel1", "sin"]
    assert by_name["cx23"]["category"] == "cost_optimized"
    assert "cpx12" in by_name
    old = await emulator.get("/server_types/1")
    assert old["deprecation"]["announced"] == "2024-06-06T08:00:00Z"
    assert not {"cx11", "cx22"} & by_name.keys()
    net = {place["location"]: place["price_monthly"]["net"] for place in by_name["cpx22"]["prices"]}
    assert (net["fsn1"], net["sin"]) == ("19.4900", "26.4900")
    removed = [*kinds, *await emulator.get("/images?include_deprecated=true&per_page=50")]
    removed += await emulator.get("/load_balancer_types")
    assert not [item["name"] for item in removed if "deprecated" in item or "deprecation" not in item]


async def test_no_address_is_left(start: Start):
    emulator = await start(public_ipv4=IPv4Network("203.0.113.0/29"))
    servers = [await emulator.make_server(f"s{i}") for i in range(3)]
    await emulator.deny("resource_unavailable", "/servers", **SERVER)
    await emulator.ok("DELETE", servers[1].path)
    again = await emulator.make_server("again")
    assert again["public_net"]["ipv4"]["ip"] == servers[1]["public_net"]["ipv4"]["ip"]


async def test_quotas(start: Start):
    emulator = await start(limits={"servers": 1, "primary_ips": 2})
    await emulator.make_server()
    error = await emulator.refused("POST", "/servers", SERVER)
    assert (error["status"], error["code"]) == (403, "resource_limit_exceeded")
    assert error["details"] == {"limits": [{"name": "server_limit"}]}
    assert error["message"] == "server limit exceeded"
    body = {"name": "ip", "type": "ipv4", "location": "fsn1"}
    error = await emulator.refused("POST", "/primary_ips", body)
    assert (error["code"], error["message"]) == ("resource_limit_exceeded", "Primary IP limit exceeded")


async def test_filters(emulator: Emulator):
    await emulator.make_server("a", labels={"env": "prod"})
    await emulator.make_server("b", labels={"env": "dev"}, start_after_create=False)
    for query, names in (
        ("name=b", ["b"]),
        ("status=off&status=running&sort=name:desc", ["b", "a"]),
        ("status=off", ["b"]),
        ("label_selector=env in (prod)", ["a"]),
        ("name=1", []),
    ):
        assert [server["name"] for server in await emulator.get(f"/servers?{query}")] == names


async def test_an_attachment_takes_the_last_subnet(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.1.0/24", "10.0.9.0/24", "10.0.2.0/24")
    server = await emulator.make_server()
    (attached,) = (await emulator.act(server.path, "attach_to_network", network=network["id"]))["private_net"]
    assert attached["ip"] == "10.0.9.1"
    assert attached["mac_address"].startswith("86:00:00:")
    attach = f"{server.path}/actions/attach_to_network"
    await emulator.deny((422, "server_already_attached"), attach, network=network["id"])


async def test_an_attachment_with_address_and_aliases(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.1.0/24")
    server, other = await emulator.make_server(), await emulator.make_server("other")
    body = {"network": network["id"], "ip": "10.0.1.7", "alias_ips": ["10.0.1.8"], "ip_range": "10.0.1.0/24"}
    (attached,) = (await emulator.act(server.path, "attach_to_network", **body))["private_net"]
    assert (attached["ip"], attached["alias_ips"]) == ("10.0.1.7", ["10.0.1.8"])
    for taken in ("10.0.1.7", "10.0.1.8"):
        attach = f"{other.path}/actions/attach_to_network"
        await emulator.deny("ip_not_available", attach, network=network["id"], ip=taken)
    aliases = {"network": network["id"], "alias_ips": ["10.0.1.8", "10.0.1.9"]}
    shown = await emulator.act(server.path, "change_alias_ips", **aliases)
    assert shown["private_net"][0]["alias_ips"] == ["10.0.1.8", "10.0.1.9"]
    for bad in (["10.0.1.7"], ["10.9.1.1"], ["x"], ["10.0.1.9", "10.0.1.9"]):
        change = f"{server.path}/actions/change_alias_ips"
        await emulator.deny("invalid_input", change, network=network["id"], alias_ips=bad)
    shown = await emulator.act(server.path, "detach_from_network", network=network["id"])
    assert shown["private_net"] == []


async def test_networks_of_a_server_are_limited_and_must_not_overlap(emulator: Emulator):
    first = (await emulator.make_network("one", "10.0.1.0/24"))["id"]
    second = (await emulator.make_network("two", "10.0.2.0/24"))["id"]
    server = await emulator.make_server(networks=[first])
    await emulator.deny("networks_overlap", f"{server.path}/actions/attach_to_network", network=second)
    await emulator.deny("networks_overlap", "/servers", **SERVER, networks=[first, second])
    await emulator.deny(["networks"], "/servers", **SERVER, networks=[first, first])
    ranges = [(f"10.{i}.0.0/24", f"10.{i}.0.0/16") for i in range(4)]
    networks = [(await emulator.make_network(one, one, ip_range=whole))["id"] for one, whole in ranges]
    server = await emulator.make_server("full", networks=networks[:3])
    attach = f"{server.path}/actions/attach_to_network"
    await emulator.deny("resource_limit_exceeded", attach, network=networks[3])


async def test_guest_events(emulator: Emulator):
    server = await emulator.make_server()
    for state in ("off", "running"):
        await emulator.ok("POST", f"/_sandbox/servers/{server['id']}/events/{state}")
        assert (await emulator.get(server.path))["status"] == state


async def test_running_actions_lock_the_server(start: Start):
    gate = Gate()
    emulator = await start(gate)
    server = await emulator.make_server()
    assert (server["status"], server["locked"]) == ("initializing", True)
    error = await emulator.refused("POST", f"{server.path}/actions/poweroff")
    assert (error["status"], error["code"]) == (423, "locked")
    assert error["message"] == "cannot perform operation because server is locked"
    await emulator.expect("locked", "DELETE", server.path)
    gate.opened.set()
    await emulator.cloud.actions.settle()
    shown = await emulator.get(server.path)
    assert (shown["status"], shown["locked"]) == ("running", False)


async def test_a_backend_failure_fails_the_action(start: Start):
    gate = Gate()
    gate.failure = BackendError("no space left for the disk")
    gate.opened.set()
    emulator = await start(gate)
    network = await emulator.make_network("net", "10.0.0.0/24")
    answer = await emulator.ok("POST", "/servers", {**SERVER, "networks": [network["id"]]})
    assert answer["action"]["error"] == {"code": "action_failed", "message": "no space left for the disk"}
    assert [action["status"] for action in answer["next_actions"]] == ["error", "error"]
    assert answer["server"]["status"] == "off"
    assert await emulator.get(f"{network.path}/members") == []


async def test_protection(emulator: Emulator):
    server = await emulator.make_server()
    await emulator.deny("invalid_input", f"{server.path}/actions/change_protection", delete=True)
    await emulator.act(server.path, "change_protection", delete=True, rebuild=True)
    await emulator.expect((423, "protected"), "DELETE", server.path)
    await emulator.deny("protected", f"{server.path}/actions/rebuild", image="debian-12")


async def test_further_actions(emulator: Emulator):
    one = (await emulator.make_server()).path
    await emulator.act(one, "attach_iso", iso="8637")
    await emulator.act(one, "reset_password")
    await emulator.act(one, "change_dns_ptr", ip="198.18.0.4", dns_ptr="web.example.com")
    await emulator.act(one, "rebuild", image="debian-13")
    await emulator.act(one, "poweroff")
    shown = await emulator.act(one, "change_type", server_type="cx33", upgrade_disk=True)
    assert (shown["image"]["name"], shown["server_type"]["name"]) == ("debian-13", "cx33")
    assert (shown["primary_disk_size"], shown["iso"]["id"]) == (80, 8637)
    assert shown["public_net"]["ipv4"]["dns_ptr"] == "web.example.com"
    assert shown["status"] == "running", "to change the type starts it again, says Hetzner's document"
    await emulator.act(one, "poweroff")
    for unfit in ("cx23", "1"):
        change = f"{one}/actions/change_type"
        await emulator.deny((422, "invalid_server_type"), change, server_type=unfit, upgrade_disk=False)
    commands = [action["command"] for action in await emulator.get(f"{one}/actions?per_page=50")]
    assert commands[:3] == ["create_server", "start_server", "attach_iso"]


async def test_the_rescue_system_is_for_one_boot(emulator: Emulator):
    one = (await emulator.make_server()).path
    for ends in ("reboot", "reset", "poweroff poweron", "disable_rescue"):
        answer = await emulator.ok("POST", f"{one}/actions/enable_rescue", {"type": "linux64"})
        assert (len(answer["root_password"]), answer["action"]["command"]) == (20, "enable_rescue")
        assert (await emulator.get(one))["rescue_enabled"], "nothing boots by itself"
        for action in ends.split():
            await emulator.act(one, action)
        assert not (await emulator.get(one))["rescue_enabled"], ends
    await emulator.deny("invalid_input", f"{one}/actions/enable_rescue", type="freebsd64")
    await emulator.deny("not_found", f"{one}/actions/enable_rescue", ssh_keys=[4])


async def test_the_console_address_belongs_to_no_host(emulator: Emulator):
    server = await emulator.make_server()
    answer = await emulator.ok("POST", f"{server.path}/actions/request_console")
    url = urlsplit(answer["wss_url"])
    assert (url.scheme, url.hostname) == ("wss", "console.invalid"), "clients must not reach Hetzner's"
    assert parse_qs(url.query)["server_id"] == [str(server["id"])]
    assert answer["password"]
    assert answer["action"]["command"] == "request_console"


async def test_an_empty_drive_is_detached_at_once(emulator: Emulator):
    server = await emulator.make_server()
    emulator.cloud.action_mode = "realistic"
    await emulator.act(server.path, "detach_iso")


async def test_a_server_needs_an_interface_to_start(emulator: Emulator):
    error = await emulator.refused("POST", "/servers", SERVER | NOWHERE)
    assert (error["status"], error["code"]) == (422, "invalid_input")
    assert error["message"] == "no public or private network interfaces found, cannot start server"
    server = await emulator.make_server(start_after_create=False, **NOWHERE)
    assert (await emulator.refused("POST", f"{server.path}/actions/poweron"))["message"] == error["message"]
    network = await emulator.make_network("net", "10.0.0.0/24")
    await emulator.act(server.path, "attach_to_network", network=network["id"])
    await emulator.act(server.path, "poweron")


async def test_addresses_are_reserved_while_machines_are_being_made(start: Start):
    gate = Gate()
    emulator = await start(gate, public_ipv4=IPv4Network("198.18.0.0/24"))
    network = await emulator.make_network("net", "10.0.0.0/27")
    made = await asyncio.gather(*(emulator.make_server(f"s{i}", networks=[network["id"]]) for i in range(20)))
    assert all(server["private_net"] == [] for server in made)
    members = await emulator.get(f"{network.path}/members?status=attaching&per_page=50")
    assert len({member["ip"] for member in members}) == 20
    gate.opened.set()
    await emulator.cloud.actions.settle()
    servers = await emulator.get("/servers?per_page=50")
    assert {server["private_net"][0]["ip"] for server in servers} == {member["ip"] for member in members}
    assert len({server["public_net"]["ipv4"]["ip"] for server in servers}) == 20


async def test_reverse_names_of_all_notations_of_an_address(emulator: Emulator):
    shown = (await emulator.make_server())["public_net"]["ipv6"]
    one, path = IPv6Network(shown["ip"])[1], f"/primary_ips/{shown['id']}"
    for text in (str(one), one.exploded, str(one).upper()):
        names = (await emulator.act(path, "change_dns_ptr", ip=text, dns_ptr="web.example.com"))["dns_ptr"]
        assert names == [{"ip": str(one), "dns_ptr": "web.example.com"}]
    assert (await emulator.act(path, "change_dns_ptr", ip=one.exploded, dns_ptr=None))["dns_ptr"] == []
    for other in (str(IPv6Network(shown["ip"]).network_address + 2**64), f"{one}%eth0", "198.18.0.1", "x"):
        await emulator.deny(["ip"], f"{path}/actions/change_dns_ptr", ip=other, dns_ptr="web.example.com")


async def test_both_reverse_names_can_change_at_the_same_time(emulator: Emulator):
    server = await emulator.make_server()
    emulator.cloud.action_mode = "slow"
    net = server["public_net"]
    for address in (net["ipv4"]["ip"], net["ipv6"]["ip"].replace("/64", "1")):
        body = {"ip": address, "dns_ptr": "a.example.com"}
        await emulator.ok("POST", f"{server.path}/actions/change_dns_ptr", body)


async def test_an_address_is_locked_during_its_assignment(emulator: Emulator):
    ip = await emulator.make("/primary_ips", name="ip", type="ipv4", location="fsn1")
    first = await emulator.make_server("first", start_after_create=False, **NOWHERE)
    await emulator.ok("PUT", "/_sandbox/settings", {"actions": "slow"})
    assignee = {"assignee_type": "server", "assignee_id": first["id"]}
    answer = await emulator.ok("POST", f"{ip.path}/actions/assign", assignee)
    assert answer["action"]["status"] == "running"
    address = {"public_net": {"ipv4": ip["id"]}}
    await emulator.deny((423, "locked"), "/servers", **SERVER, location="fsn1", **address)


async def test_an_alias_address_is_reserved_during_the_change(emulator: Emulator):
    network = (await emulator.make_network("net", "10.0.0.0/24"))["id"]
    first, second = [await emulator.make_server(name, networks=[network]) for name in ("first", "second")]
    third = await emulator.make_server("third")
    await emulator.ok("PUT", "/_sandbox/settings", {"actions": "slow"})
    body = {"network": network, "alias_ips": ["10.0.0.99"]}
    answer = await emulator.ok("POST", f"{first.path}/actions/change_alias_ips", body)
    assert answer["action"]["status"] == "running"
    await emulator.deny(["alias_ips"], f"{second.path}/actions/change_alias_ips", **body)
    attach = f"{third.path}/actions/attach_to_network"
    await emulator.deny("ip_not_available", attach, network=network, ip="10.0.0.99")


async def test_an_alias_address_is_released_after_a_failure(emulator: Emulator):
    network = (await emulator.make_network("net", "10.0.0.0/24"))["id"]
    first, second = [await emulator.make_server(name, networks=[network]) for name in ("first", "second")]
    await emulator.ok("POST", "/_sandbox/faults", {"command": "change_alias_ips", "times": 1})
    body = {"network": network, "alias_ips": ["10.0.0.99"]}
    failed = await emulator.ok("POST", f"{first.path}/actions/change_alias_ips", body)
    assert failed["action"]["status"] == "error"
    await emulator.act(second.path, "change_alias_ips", **body)
    # and one that it gives up
    await emulator.act(second.path, "change_alias_ips", network=network, alias_ips=[])
    await emulator.act(first.path, "change_alias_ips", **body)


async def test_a_firewall_applies_to_a_server_once(emulator: Emulator):
    firewall = await emulator.make("/firewalls", name="wall")
    await emulator.deny(["firewalls"], "/servers", **SERVER, firewalls=[{"firewall": firewall["id"]}] * 2)
    await emulator.deny(["apply_to"], f"{firewall.path}/actions/apply_to_resources", apply_to=[BY_LABEL] * 2)
    assert (await emulator.get(firewall.path))["applied_to"] == []
