from __future__ import annotations

import asyncio
from ipaddress import IPv4Network, IPv6Network
from urllib.parse import parse_qs, urlsplit

from cloud_emulator import Emulator, Gate, Start

from hetzner_emulator.backend import BackendError


async def attach(emulator: Emulator, server: int, **body):
    answer = await emulator.ok("POST", f"/servers/{server}/actions/attach_to_network", body)
    assert answer["action"]["status"] == "success"
    return (await emulator.get(f"/servers/{server}"))["private_net"]


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
    rebuild = f"/servers/{server['id']}/actions/rebuild"
    await emulator.ok("POST", rebuild, {"image": "debian-12", "user_data": "ä" * (16 * 1024)})
    create = {"name": "b", "server_type": "cx23", "image": "debian-12"}
    for path, body in (("/servers", create), (rebuild, {"image": "debian-12"})):
        error = await emulator.refused("POST", path, {**body, "user_data": "ä" * (16 * 1024 + 1)})
        assert [entry["name"] for entry in error["details"]["fields"]] == ["user_data"], "bytes are counted"


async def test_a_name_can_be_as_long_as_a_hostname(emulator: Emulator):
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    body = {"name": longest, "server_type": "cx23", "image": "debian-12"}
    server = (await emulator.ok("POST", "/servers", body))["server"]
    one = f"/servers/{server['id']}"
    renamed = await emulator.ok("PUT", one, {"name": f"z{longest[1:]}"})
    assert len(renamed["server"]["name"]) == 253
    for method, path in (("POST", "/servers"), ("PUT", one)):
        await emulator.expect(["name"], method, path, {**body, "name": f"{longest}d"})


async def test_names_are_unique_in_a_project(emulator: Emulator):
    first, second = await emulator.make_server("a"), await emulator.make_server("b")
    error = await emulator.refused("PUT", f"/servers/{second['id']}", {"name": "a"})
    assert (error["status"], error["code"], error["details"]) == (
        409,
        "uniqueness_error",
        {"fields": [{"name": "name"}]},
    )
    renamed = await emulator.ok("PUT", f"/servers/{first['id']}", {"name": "c", "labels": {"x": ""}})
    assert (renamed["server"]["name"], renamed["server"]["labels"]) == ("c", {"x": ""})


async def test_no_capacity(start: Start):
    emulator = await start(sold_out=frozenset({("cx23", "fsn1")}))
    body = {"name": "a", "server_type": "cx23", "image": "debian-12", "location": "fsn1"}
    await emulator.expect((412, "resource_unavailable"), "POST", "/servers", body)
    elsewhere = await emulator.ok("POST", "/servers", {**body, "location": None})
    assert elsewhere["server"]["location"]["name"] == "nbg1"
    (kind,) = await emulator.get("/server_types?name=cx23")
    assert [place["available"] for place in kind["locations"]] == [False, True, True]
    settings = await emulator.ok("PUT", "/_sandbox/settings", {"sold_out": {"cx23": ["hel1", "nbg1"]}})
    assert settings["sold_out"] == {"cx23": ["hel1", "nbg1"]}
    assert (await emulator.ok("PUT", "/_sandbox/settings", {}))["sold_out"] == settings["sold_out"]
    (kind,) = await emulator.get("/server_types?name=cx23")
    assert [place["available"] for place in kind["locations"]] == [True, False, False]


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


async def test_sold_out_server_types(emulator: Emulator):
    settings = await emulator.ok("PUT", "/_sandbox/settings", {"sold_out": "2026-09"})
    assert {"cx23", "cx53", "cax11", "cax41"} <= settings["sold_out"].keys()
    assert not {"cpx12", "cpx22", "ccx13"} & settings["sold_out"].keys()


async def test_no_address_is_left(start: Start):
    emulator = await start(public_ipv4=IPv4Network("203.0.113.0/29"))
    servers = [await emulator.make_server(f"s{i}") for i in range(3)]
    await emulator.expect(
        "resource_unavailable", "POST", "/servers", {"name": "x", "server_type": "cx23", "image": "debian-12"}
    )
    await emulator.ok("DELETE", f"/servers/{servers[1]['id']}")
    again = await emulator.make_server("again")
    assert again["public_net"]["ipv4"]["ip"] == servers[1]["public_net"]["ipv4"]["ip"]


async def test_quotas(start: Start):
    emulator = await start(limits={"servers": 1, "primary_ips": 2})
    await emulator.make_server()
    error = await emulator.refused(
        "POST", "/servers", {"name": "b", "server_type": "cx23", "image": "debian-12"}
    )
    assert (error["status"], error["code"]) == (403, "resource_limit_exceeded")
    assert error["details"] == {"limits": [{"name": "server_limit"}]}
    assert error["message"] == "server limit exceeded"
    body = {"name": "ip", "type": "ipv4", "location": "fsn1"}
    error = await emulator.refused("POST", "/primary_ips", body)
    assert (error["code"], error["message"]) == ("resource_limit_exceeded", "Primary IP limit exceeded")


async def test_filters(emulator: Emulator):
    await emulator.make_server("a", labels={"env": "prod"})
    await emulator.make_server("b", labels={"env": "dev"}, start_after_create=False)

    async def names(query: str) -> list[str]:
        return [server["name"] for server in await emulator.get(f"/servers?{query}")]

    assert await names("name=b") == ["b"]
    assert await names("status=off&status=running&sort=name:desc") == ["b", "a"]
    assert await names("status=off") == ["b"]
    assert await names("label_selector=env in (prod)") == ["a"]
    assert await names("name=1") == []


async def test_an_attachment_takes_the_last_subnet(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.1.0/24", "10.0.9.0/24", "10.0.2.0/24")
    server = await emulator.make_server()
    (attached,) = await attach(emulator, server["id"], network=network["id"])
    assert attached["ip"] == "10.0.9.1"
    assert attached["mac_address"].startswith("86:00:00:")
    await emulator.expect(
        (422, "server_already_attached"),
        "POST",
        f"/servers/{server['id']}/actions/attach_to_network",
        {"network": network["id"]},
    )


async def test_an_attachment_with_address_and_aliases(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.1.0/24")
    server = await emulator.make_server()
    (attached,) = await attach(
        emulator,
        server["id"],
        network=network["id"],
        ip="10.0.1.7",
        alias_ips=["10.0.1.8"],
        ip_range="10.0.1.0/24",
    )
    assert (attached["ip"], attached["alias_ips"]) == ("10.0.1.7", ["10.0.1.8"])
    other = await emulator.make_server("other")
    for taken in ("10.0.1.7", "10.0.1.8"):
        body = {"network": network["id"], "ip": taken}
        await emulator.expect(
            "ip_not_available", "POST", f"/servers/{other['id']}/actions/attach_to_network", body
        )
    path = f"/servers/{server['id']}/actions/change_alias_ips"
    await emulator.ok("POST", path, {"network": network["id"], "alias_ips": ["10.0.1.8", "10.0.1.9"]})
    shown = (await emulator.get(f"/servers/{server['id']}"))["private_net"][0]
    assert shown["alias_ips"] == ["10.0.1.8", "10.0.1.9"]
    for bad in (["10.0.1.7"], ["10.9.1.1"], ["x"], ["10.0.1.9", "10.0.1.9"]):
        await emulator.expect("invalid_input", "POST", path, {"network": network["id"], "alias_ips": bad})
    await emulator.ok(
        "POST", f"/servers/{server['id']}/actions/detach_from_network", {"network": network["id"]}
    )
    assert (await emulator.get(f"/servers/{server['id']}"))["private_net"] == []


async def test_networks_of_a_server_must_not_overlap(emulator: Emulator):
    first = await emulator.make_network("one", "10.0.1.0/24")
    second = await emulator.make_network("two", "10.0.2.0/24")
    server = await emulator.make_server(networks=[first["id"]])
    body = {"network": second["id"]}
    await emulator.expect(
        "networks_overlap", "POST", f"/servers/{server['id']}/actions/attach_to_network", body
    )
    body = {"name": "x", "server_type": "cx23", "image": "debian-12"}
    await emulator.expect(
        "networks_overlap", "POST", "/servers", {**body, "networks": [first["id"], second["id"]]}
    )
    await emulator.expect(["networks"], "POST", "/servers", {**body, "networks": [first["id"], first["id"]]})


async def test_a_server_is_in_three_networks_at_most(emulator: Emulator):
    networks = [
        (await emulator.make_network(f"n{i}", f"10.{i}.0.0/24", ip_range=f"10.{i}.0.0/16"))["id"]
        for i in range(4)
    ]
    server = await emulator.make_server(networks=networks[:3])
    path = f"/servers/{server['id']}/actions/attach_to_network"
    await emulator.expect("resource_limit_exceeded", "POST", path, {"network": networks[3]})


async def test_guest_events(emulator: Emulator):
    server = await emulator.make_server()
    await emulator.ok("POST", f"/_sandbox/servers/{server['id']}/events/off")
    assert (await emulator.get(f"/servers/{server['id']}"))["status"] == "off"
    await emulator.ok("POST", f"/_sandbox/servers/{server['id']}/events/running")
    assert (await emulator.get(f"/servers/{server['id']}"))["status"] == "running"


async def test_running_actions_lock_the_server(start: Start):
    gate = Gate()
    emulator = await start(gate)
    server = await emulator.make_server()
    assert (server["status"], server["locked"]) == ("initializing", True)
    error = await emulator.refused("POST", f"/servers/{server['id']}/actions/poweroff")
    assert (error["status"], error["code"]) == (423, "locked")
    assert error["message"] == "cannot perform operation because server is locked"
    await emulator.expect("locked", "DELETE", f"/servers/{server['id']}")
    gate.opened.set()
    await emulator.cloud.actions.settle()
    shown = await emulator.get(f"/servers/{server['id']}")
    assert (shown["status"], shown["locked"]) == ("running", False)


async def test_a_backend_failure_fails_the_action(start: Start):
    gate = Gate()
    gate.failure = BackendError("no space left for the disk")
    gate.opened.set()
    emulator = await start(gate)
    network = await emulator.make_network("net", "10.0.0.0/24")
    body = {"name": "a", "server_type": "cx23", "image": "debian-12", "networks": [network["id"]]}
    answer = await emulator.ok("POST", "/servers", body)
    assert answer["action"]["error"] == {"code": "action_failed", "message": "no space left for the disk"}
    assert [action["status"] for action in answer["next_actions"]] == ["error", "error"]
    assert answer["server"]["status"] == "off"
    assert await emulator.get(f"/networks/{network['id']}/members") == []


async def test_protection(emulator: Emulator):
    server = await emulator.make_server()
    path = f"/servers/{server['id']}/actions/change_protection"
    await emulator.expect("invalid_input", "POST", path, {"delete": True})
    await emulator.ok("POST", path, {"delete": True, "rebuild": True})
    await emulator.expect((423, "protected"), "DELETE", f"/servers/{server['id']}")
    await emulator.expect(
        "protected", "POST", f"/servers/{server['id']}/actions/rebuild", {"image": "debian-12"}
    )


async def test_further_actions(emulator: Emulator):
    server = await emulator.make_server()
    base = f"/servers/{server['id']}"
    for action, body in [
        ("attach_iso", {"iso": "8637"}),
        ("detach_iso", None),
        ("enable_backup", None),
        ("disable_backup", None),
        ("reset_password", None),
        ("change_dns_ptr", {"ip": "198.18.0.4", "dns_ptr": "web.example.com"}),
        ("rebuild", {"image": "debian-13"}),
        ("poweroff", None),
        ("change_type", {"server_type": "cx33", "upgrade_disk": True}),
    ]:
        answer = await emulator.ok("POST", f"{base}/actions/{action}", body)
        assert answer["action"]["status"] == "success", action
    shown = (await emulator.ok("GET", base))["server"]
    assert (shown["image"]["name"], shown["server_type"]["name"], shown["primary_disk_size"]) == (
        "debian-13",
        "cx33",
        80,
    )
    assert shown["public_net"]["ipv4"]["dns_ptr"] == "web.example.com"
    assert shown["status"] == "running", "to change the type starts it again, says Hetzner's document"
    await emulator.ok("POST", f"{base}/actions/poweroff")
    for unfit in ("cx23", "1"):
        body = {"server_type": unfit, "upgrade_disk": False}
        await emulator.expect((422, "invalid_server_type"), "POST", f"{base}/actions/change_type", body)
    commands = [a["command"] for a in await emulator.get(f"{base}/actions?per_page=50")]
    assert commands[:3] == ["create_server", "start_server", "attach_iso"]


async def test_the_rescue_system_is_for_one_boot(emulator: Emulator):
    base = f"/servers/{(await emulator.make_server())['id']}"

    async def is_enabled() -> bool:
        return (await emulator.ok("GET", base))["server"]["rescue_enabled"]

    for ends in ("reboot", "reset", "poweroff poweron", "disable_rescue"):
        answer = await emulator.ok("POST", f"{base}/actions/enable_rescue", {"type": "linux64"})
        assert (len(answer["root_password"]), answer["action"]["command"]) == (20, "enable_rescue")
        assert await is_enabled(), "nothing boots by itself"
        for action in ends.split():
            await emulator.ok("POST", f"{base}/actions/{action}")
        assert not await is_enabled(), ends
    for body, code in (({"type": "freebsd64"}, "invalid_input"), ({"ssh_keys": [4]}, "not_found")):
        await emulator.expect(code, "POST", f"{base}/actions/enable_rescue", body)


async def test_the_console_address_belongs_to_no_host(emulator: Emulator):
    server = await emulator.make_server()
    answer = await emulator.ok("POST", f"/servers/{server['id']}/actions/request_console")
    url = urlsplit(answer["wss_url"])
    assert (url.scheme, url.hostname) == ("wss", "console.invalid"), "clients must not reach Hetzner's"
    assert parse_qs(url.query)["server_id"] == [str(server["id"])]
    assert answer["password"]
    assert answer["action"]["command"] == "request_console"


async def test_an_empty_drive_is_detached_at_once(emulator: Emulator):
    server = await emulator.make_server()
    emulator.cloud.action_mode = "realistic"
    detach = f"/servers/{server['id']}/actions/detach_iso"
    assert (await emulator.ok("POST", detach))["action"]["status"] == "success"


async def test_a_server_needs_an_interface_to_start(emulator: Emulator):
    nowhere = {"public_net": {"enable_ipv4": False, "enable_ipv6": False}}
    body = {"name": "web", "server_type": "cx23", "image": "debian-12", "location": "fsn1", **nowhere}
    error = await emulator.refused("POST", "/servers", body)
    assert (error["status"], error["code"]) == (422, "invalid_input")
    assert error["message"] == "no public or private network interfaces found, cannot start server"
    server = await emulator.make_server(start_after_create=False, **nowhere)
    start = f"/servers/{server['id']}/actions/poweron"
    assert (await emulator.refused("POST", start))["message"] == error["message"]
    network = await emulator.make_network("net", "10.0.0.0/24")
    await attach(emulator, server["id"], network=network["id"])
    await emulator.ok("POST", start)


async def test_addresses_are_reserved_while_machines_are_being_made(start: Start):
    gate = Gate()
    emulator = await start(gate, public_ipv4=IPv4Network("198.18.0.0/24"))
    network = await emulator.make_network("net", "10.0.0.0/27")
    body = {"server_type": "cx23", "image": "debian-12", "networks": [network["id"]]}
    requests = [emulator.ok("POST", "/servers", {**body, "name": f"s{i}"}) for i in range(20)]
    made = [answer["server"] for answer in await asyncio.gather(*requests)]
    assert all(server["private_net"] == [] for server in made)
    members = (await emulator.ok("GET", f"/networks/{network['id']}/members?status=attaching&per_page=50"))[
        "members"
    ]
    assert len({member["ip"] for member in members}) == 20
    gate.opened.set()
    await emulator.cloud.actions.settle()
    servers = await emulator.get("/servers?per_page=50")
    assert {server["private_net"][0]["ip"] for server in servers} == {member["ip"] for member in members}
    assert len({server["public_net"]["ipv4"]["ip"] for server in servers}) == 20


async def test_reverse_names_of_all_notations_of_an_address(emulator: Emulator):
    shown = (await emulator.make_server())["public_net"]["ipv6"]
    one = IPv6Network(shown["ip"])[1]
    path = f"/primary_ips/{shown['id']}"
    for text in (str(one), one.exploded, str(one).upper()):
        body = {"ip": text, "dns_ptr": "web.example.com"}
        await emulator.ok("POST", f"{path}/actions/change_dns_ptr", body)
        names = (await emulator.ok("GET", path))["primary_ip"]["dns_ptr"]
        assert names == [{"ip": str(one), "dns_ptr": "web.example.com"}]
    await emulator.ok("POST", f"{path}/actions/change_dns_ptr", {"ip": one.exploded, "dns_ptr": None})
    assert (await emulator.ok("GET", path))["primary_ip"]["dns_ptr"] == []
    for other in (str(IPv6Network(shown["ip"]).network_address + 2**64), f"{one}%eth0", "198.18.0.1", "x"):
        body = {"ip": other, "dns_ptr": "web.example.com"}
        await emulator.expect(["ip"], "POST", f"{path}/actions/change_dns_ptr", body)


async def test_both_reverse_names_can_change_at_the_same_time(emulator: Emulator):
    server = await emulator.make_server()
    emulator.cloud.action_mode = "slow"
    net = server["public_net"]
    addresses = [net["ipv4"]["ip"], net["ipv6"]["ip"].replace("/64", "1")]
    for number, address in enumerate(addresses):
        body = {"ip": address, "dns_ptr": f"a{number}.example.com"}
        await emulator.ok("POST", f"/servers/{server['id']}/actions/change_dns_ptr", body)


async def test_an_address_is_locked_during_its_assignment(emulator: Emulator):
    ip = (await emulator.make("/primary_ips", name="ip", type="ipv4", location="fsn1"))["id"]
    none = {"enable_ipv4": False, "enable_ipv6": False}
    first = await emulator.make_server("first", public_net=none, start_after_create=False)
    await emulator.ok("PUT", "/_sandbox/settings", {"actions": "slow"})
    assignee = {"assignee_type": "server", "assignee_id": first["id"]}
    answer = await emulator.ok("POST", f"/primary_ips/{ip}/actions/assign", assignee)
    assert answer["action"]["status"] == "running"
    wanted = {"name": "second", "server_type": "cx23", "image": "debian-12", "location": "fsn1"}
    await emulator.expect((423, "locked"), "POST", "/servers", {**wanted, "public_net": {"ipv4": ip}})


async def test_an_alias_address_is_reserved_during_the_change(emulator: Emulator):
    network = (await emulator.make_network("net", "10.0.0.0/24"))["id"]
    first, second, third = [await emulator.make_server(name) for name in ("first", "second", "third")]
    for server in (first, second):
        path = f"/servers/{server['id']}/actions/attach_to_network"
        await emulator.ok("POST", path, {"network": network})
    await emulator.ok("PUT", "/_sandbox/settings", {"actions": "slow"})
    change = "/servers/{}/actions/change_alias_ips"
    body = {"network": network, "alias_ips": ["10.0.0.99"]}
    answer = await emulator.ok("POST", change.format(first["id"]), body)
    assert answer["action"]["status"] == "running"
    error = await emulator.refused("POST", change.format(second["id"]), body)
    assert "'10.0.0.99' is not available" in error["reasons"][0]
    attach = f"/servers/{third['id']}/actions/attach_to_network"
    await emulator.refused("POST", attach, {"network": network, "ip": "10.0.0.99"})


async def test_an_alias_address_is_released_after_a_failure(emulator: Emulator):
    network = (await emulator.make_network("net", "10.0.0.0/24"))["id"]
    first, second = [await emulator.make_server(name, networks=[network]) for name in ("first", "second")]
    await emulator.ok("POST", "/_sandbox/faults", {"command": "change_alias_ips", "times": 1})
    body = {"network": network, "alias_ips": ["10.0.0.99"]}
    for server, status in ((first, "error"), (second, "success")):
        path = f"/servers/{server['id']}/actions/change_alias_ips"
        assert (await emulator.ok("POST", path, body))["action"]["status"] == status
    # and one that it gives up
    path = f"/servers/{second['id']}/actions/change_alias_ips"
    await emulator.ok("POST", path, {**body, "alias_ips": []})
    await emulator.ok("POST", f"/servers/{first['id']}/actions/change_alias_ips", body)


async def test_a_firewall_applies_to_a_server_once(emulator: Emulator):
    firewall = (await emulator.make("/firewalls", name="wall"))["id"]
    wanted = {"name": "web", "server_type": "cx23", "image": "debian-12"}
    twice = [{"firewall": firewall}, {"firewall": firewall}]
    await emulator.expect(["firewalls"], "POST", "/servers", {**wanted, "firewalls": twice})
    selector = {"type": "label_selector", "label_selector": {"selector": "role=web"}}
    resources = f"/firewalls/{firewall}/actions/apply_to_resources"
    await emulator.expect(["apply_to"], "POST", resources, {"apply_to": [selector, selector]})
    assert (await emulator.get(f"/firewalls/{firewall}"))["applied_to"] == []
