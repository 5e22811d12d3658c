"""SSH keys, placement groups, primary IPs and firewalls."""

from __future__ import annotations

from typing import Any

from cloud_emulator import Emulator, RecordingBackend, Start

from hetzner_emulator.backend import BackendError, FirewallRule

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDlzUOKiDxUmMbMXZPvFdYWhZPGUBsfIAzmyFAxRPBYN someone"


async def test_ssh_keys(emulator: Emulator):
    key = await emulator.make("/ssh_keys", name="key", public_key=KEY)
    assert len(key["fingerprint"].split(":")) == 16
    assert await emulator.get(f"/ssh_keys?fingerprint={key['fingerprint']}") == [key]
    same = await emulator.refused("POST", "/ssh_keys", {"name": "other", "public_key": KEY})
    assert same["message"] == "SSH key with the same fingerprint already exists"
    assert same["details"] == {"fields": [{"name": "public_key"}]}
    await emulator.ok("DELETE", f"/ssh_keys/{key['id']}")
    await emulator.expect("not_found", "DELETE", f"/ssh_keys/{key['id']}")
    again = await emulator.make("/ssh_keys", name="key", public_key=KEY)
    assert again["id"] > key["id"], "ids are not used again"


async def test_a_placement_group_has_at_most_ten_servers(emulator: Emulator):
    group = await emulator.make("/placement_groups", name="group", type="spread")
    for number in range(10):
        await emulator.make_server(f"s{number}", placement_group=group["id"])
    body = {"name": "x", "server_type": "cx23", "image": "debian-12", "placement_group": group["id"]}
    error = await emulator.refused("POST", "/servers", body)
    assert error["code"] == "service_error"
    assert error["message"] == f"placement group {group['id']} contains already 10 servers"
    await emulator.expect("resource_in_use", "DELETE", f"/placement_groups/{group['id']}")


async def test_joining_and_leaving_a_placement_group(emulator: Emulator):
    group = (await emulator.ok("POST", "/placement_groups", {"name": "g", "type": "spread"}))[
        "placement_group"
    ]
    server = await emulator.make_server()
    join, body = f"/servers/{server['id']}/actions/add_to_placement_group", {"placement_group": group["id"]}
    leave = f"/servers/{server['id']}/actions/remove_from_placement_group"
    await emulator.expect("server_not_stopped", "POST", join, body)
    await emulator.ok("POST", f"/servers/{server['id']}/actions/poweroff")
    await emulator.ok("POST", join, body)
    shown = await emulator.get(f"/placement_groups/{group['id']}")
    assert shown["servers"] == [server["id"]]
    assert (await emulator.get(f"/servers/{server['id']}"))["status"] == "running"
    await emulator.expect("already_in_placement_group", "POST", join, body)
    await emulator.ok("POST", leave)
    await emulator.expect("not_in_placement_group", "POST", leave)


async def test_primary_ips_are_assigned_to_stopped_servers(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    server = await emulator.make_server(
        public_net={"enable_ipv4": False, "enable_ipv6": False}, networks=[network["id"]]
    )
    ip = await emulator.make("/primary_ips", name="ip", type="ipv4", assignee_type="server", location="fsn1")
    assign = {"assignee_type": "server", "assignee_id": server["id"]}
    path = f"/primary_ips/{ip['id']}/actions"
    await emulator.expect("server_not_stopped", "POST", f"{path}/assign", assign)
    await emulator.ok("POST", f"/servers/{server['id']}/actions/poweroff")
    await emulator.ok("POST", f"{path}/assign", assign)
    shown = await emulator.get(f"/servers/{server['id']}")
    assert shown["public_net"]["ipv4"]["ip"] == ip["ip"]
    await emulator.expect("primary_ip_already_assigned", "POST", f"{path}/assign", assign)
    await emulator.expect("must_be_unassigned", "DELETE", f"/primary_ips/{ip['id']}")
    more = {"name": "second", "type": "ipv4", "assignee_type": "server", "assignee_id": server["id"]}
    await emulator.expect("server_has_ipv4", "POST", "/primary_ips", more)
    third = await emulator.ok("POST", "/primary_ips", {**more, "name": "third", "type": "ipv6"})
    assert third["action"]["command"] == "assign_primary_ip"
    assert third["primary_ip"]["assignee_id"] == server["id"]
    await emulator.ok("POST", f"{path}/unassign")
    await emulator.expect("primary_ip_not_assigned", "POST", f"{path}/unassign")
    await emulator.ok("DELETE", f"/primary_ips/{ip['id']}")


async def test_addresses_are_found_with_and_without_their_length(emulator: Emulator):
    ip = await emulator.make("/primary_ips", name="ip", type="ipv6", assignee_type="server", location="fsn1")
    for text, found in ((ip["ip"], 1), (ip["ip"].removesuffix("/64"), 1), ("2001:db8::", 0)):
        listed = await emulator.get("/primary_ips", params={"ip": text})
        assert len(listed) == found, text


async def test_the_address_of_a_target_cannot_be_unassigned(emulator: Emulator):
    server = await emulator.make_server(start_after_create=False)
    target = {"type": "server", "server": {"id": server["id"]}}
    balancer = await emulator.make(
        "/load_balancers", name="lb", load_balancer_type="lb11", location="fsn1", targets=[target]
    )
    net = server["public_net"]
    unassign = "/primary_ips/{}/actions/unassign"
    await emulator.expect((422, "server_is_load_balancer_target"), "POST", unassign.format(net["ipv4"]["id"]))
    await emulator.ok("POST", unassign.format(net["ipv6"]["id"]))
    await emulator.ok("POST", f"/load_balancers/{balancer['id']}/actions/remove_target", target)
    await emulator.ok("POST", unassign.format(net["ipv4"]["id"]))


async def test_primary_ips_on_their_own(emulator: Emulator):
    ip = await emulator.make(
        "/primary_ips", name="ip", type="ipv6", assignee_type="server", location="hel1", labels={"a": "b"}
    )
    assert ip["ip"] == "2001:db8:0:1::/64"
    path = f"/primary_ips/{ip['id']}"
    name = {"ip": "2001:db8:0:1::7", "dns_ptr": "a.example.com"}
    await emulator.ok("POST", f"{path}/actions/change_dns_ptr", name)
    assert (await emulator.ok("GET", path))["primary_ip"]["dns_ptr"] == [name]
    assert (await emulator.get(f"/primary_ips?ip={ip['ip']}"))[0]["id"] == ip["id"]
    await emulator.ok("PUT", path, {"auto_delete": True})
    protect = f"{path}/actions/change_protection"
    await emulator.expect("invalid_input", "POST", protect, {"delete": True})
    await emulator.ok("PUT", path, {"auto_delete": False, "name": "new"})
    await emulator.ok("POST", protect, {"delete": True})
    await emulator.expect("protected", "DELETE", path)


RULE = {"direction": "in", "protocol": "tcp", "port": "80", "source_ips": ["0.0.0.0/0"]}


async def test_firewalls(emulator: Emulator):
    server = await emulator.make_server(labels={"role": "web"})
    target = {"type": "server", "server": {"id": server["id"]}}
    by_label = {"type": "label_selector", "label_selector": {"selector": "role=web"}}
    body = {"name": "fw", "rules": [RULE], "apply_to": [target]}
    answer = await emulator.ok("POST", "/firewalls", body)
    assert [action["command"] for action in answer["actions"]] == ["set_firewall_rules", "apply_firewall"]
    path = f"/firewalls/{answer['firewall']['id']}"
    await emulator.expect(
        "firewall_already_applied", "POST", f"{path}/actions/apply_to_resources", {"apply_to": [target]}
    )
    await emulator.ok("POST", f"{path}/actions/apply_to_resources", {"apply_to": [by_label]})
    shown = (await emulator.ok("GET", path))["firewall"]["applied_to"]
    assert shown[1]["applied_to_resources"] == [target]
    await emulator.expect("resource_in_use", "DELETE", path)
    changed = (await emulator.ok("POST", f"{path}/actions/set_rules", {"rules": []}))["actions"]
    assert [(action["command"], len(action["resources"])) for action in changed] == [
        ("set_firewall_rules", 1),
        ("apply_firewall", 2),
    ]
    await emulator.ok("POST", f"{path}/actions/remove_from_resources", {"remove_from": [by_label]})
    await emulator.ok("DELETE", f"/servers/{server['id']}")
    assert (await emulator.ok("GET", path))["firewall"]["applied_to"] == []
    await emulator.expect(
        (404, "firewall_resource_not_found"),
        "POST",
        f"{path}/actions/apply_to_resources",
        {"apply_to": [target]},
    )
    await emulator.expect(
        (422, "firewall_resource_not_found"), "POST", "/firewalls", {"name": "other", "apply_to": [target]}
    )
    await emulator.ok("DELETE", path)


async def test_inbound_rules_come_first(emulator: Emulator):
    out = {"direction": "out", "protocol": "tcp", "port": "80", "destination_ips": ["0.0.0.0/0"]}
    into = {"direction": "in", "protocol": "tcp", "source_ips": ["0.0.0.0/0"]}
    rules = [out, {**into, "port": "82"}, {**into, "port": "81"}]
    shown = (await emulator.make("/firewalls", name="fw", rules=rules))["rules"]
    assert [(rule["direction"], rule["port"]) for rule in shown] == [
        ("in", "82"),
        ("in", "81"),
        ("out", "80"),
    ]


async def test_a_firewall_applied_by_label_cannot_be_removed_from_a_server(emulator: Emulator):
    server = await emulator.make_server(labels={"role": "web"})
    other = await emulator.make_server("other")
    by_label = {"type": "label_selector", "label_selector": {"selector": "role=web"}}
    firewall = await emulator.make("/firewalls", name="fw", apply_to=[by_label])
    path = f"/firewalls/{firewall['id']}/actions/remove_from_resources"
    for identity, status, code in (
        (server["id"], 422, "firewall_managed_by_label_selector"),
        (other["id"], 404, "firewall_resource_not_found"),
    ):
        target = {"type": "server", "server": {"id": identity}}
        await emulator.expect((status, code), "POST", path, {"remove_from": [target]})


async def test_a_server_without_public_addresses_and_its_firewall(emulator: Emulator):
    server = await emulator.make_server(start_after_create=False)
    target = {"type": "server", "server": {"id": server["id"]}}
    firewall = await emulator.make("/firewalls", name="fw", apply_to=[target])
    for address in await emulator.get("/primary_ips"):
        await emulator.ok("POST", f"/primary_ips/{address['id']}/actions/unassign")
    path = f"/firewalls/{firewall['id']}/actions"
    await emulator.ok("POST", f"{path}/remove_from_resources", {"remove_from": [target]})
    await emulator.expect(
        "private_net_only_server", "POST", f"{path}/apply_to_resources", {"apply_to": [target]}
    )


async def test_ranges_of_rules_are_shown_in_their_shortest_form(emulator: Emulator):
    rule = {**RULE, "source_ips": ["2001:DB8:0::0/32", "::/0", "10.0.0.0/8"]}
    firewall = await emulator.make("/firewalls", name="fw", rules=[rule])
    assert firewall["rules"][0]["source_ips"] == ["2001:db8::/32", "::/0", "10.0.0.0/8"]


WEB = FirewallRule("in", "tcp", (80, 80), ("0.0.0.0/0",))


async def test_the_backend_gets_the_union_of_all_rules_after_every_change(start: Start):
    backend = RecordingBackend()

    def rules_of_servers() -> Any:
        return backend.of("put_firewalls")[-1]

    emulator = await start(backend)
    rules = [RULE, {**RULE, "port": "1000-2000"}, {**RULE, "protocol": "icmp", "port": None}]
    first = await emulator.make("/firewalls", name="one", rules=[RULE])
    server = (await emulator.make_server(firewalls=[{"firewall": first["id"]}]))["id"]
    assert rules_of_servers() == {server: (WEB,)}
    names = [name for name, *_ in backend.calls]
    assert names.index("put_firewalls") < names.index("power_on"), "a server starts behind its firewall"
    by_label = {"type": "label_selector", "label_selector": {"selector": "role=web"}}
    body = {"name": "two", "rules": rules, "apply_to": [by_label]}
    await emulator.ok("POST", "/firewalls", body)
    assert rules_of_servers() == {server: (WEB,)}
    await emulator.ok("PUT", f"/servers/{server}", {"labels": {"role": "web"}})
    more = (WEB, FirewallRule("in", "tcp", (1000, 2000), WEB.ranges))
    assert rules_of_servers() == {server: (*more, FirewallRule("in", "icmp", None, WEB.ranges))}
    out = {"direction": "out", "protocol": "tcp", "port": "any", "destination_ips": ["::/0"]}
    await emulator.ok("POST", f"/firewalls/{first['id']}/actions/set_rules", {"rules": [out]})
    await emulator.ok("PUT", f"/servers/{server}", {"labels": {}})
    assert rules_of_servers() == {server: (FirewallRule("out", "tcp", None, ("::/0",)),)}
    backend.failure = BackendError("nft refuses")
    target = {"type": "server", "server": {"id": server}}
    remove = f"/firewalls/{first['id']}/actions/remove_from_resources"
    (action,) = (await emulator.ok("POST", remove, {"remove_from": [target]}))["actions"]
    assert action["error"] == {"code": "action_failed", "message": "nft refuses"}
    backend.failure = None
    await emulator.ok("DELETE", f"/servers/{server}")
    assert rules_of_servers() == {}


async def test_a_server_has_at_most_five_firewalls(emulator: Emulator):
    server = await emulator.make_server(labels={"role": "web"})
    target = {"type": "server", "server": {"id": server["id"]}}
    by_label = {"type": "label_selector", "label_selector": {"selector": "role=web"}}
    for number, each in enumerate([target, by_label, target, by_label, target]):
        await emulator.ok("POST", "/firewalls", {"name": f"fw{number}", "apply_to": [each]})
    for each in (target, by_label):
        await emulator.expect(
            "resource_limit_exceeded", "POST", "/firewalls", {"name": "more", "apply_to": [each]}
        )
    wide = {**RULE, "source_ips": [f"10.0.{n}.0/24" for n in range(100)]}
    await emulator.ok("POST", "/firewalls", {"name": "wide", "rules": [wide] * 5})
    await emulator.expect(["rules"], "POST", "/firewalls", {"name": "wider", "rules": [*[wide] * 5, RULE]})
