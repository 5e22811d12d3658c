from typing import Any

from cloud_emulator import BY_LABEL, KEY, RULE, SERVER, Emulator, Made, RecordingBackend, Start, server_target

from hetzner_emulator.backend import BackendError, FirewallRule


async def new_ip(emulator: Emulator, kind: str, **more: Any) -> Made:
    body = {"name": "ip", "type": kind, "assignee_type": "server", "location": "fsn1", **more}
    return await emulator.make("/primary_ips", **body)


async def test_ssh_keys(emulator: Emulator):
    key = await emulator.make("/ssh_keys", name="key", public_key=KEY)
    assert len(key["fingerprint"].split(":")) == 16
    assert await emulator.get(f"/ssh_keys?fingerprint={key['fingerprint']}") == [key]
    same = await emulator.refused("POST", "/ssh_keys", {"name": "other", "public_key": KEY})
    assert same["message"] == "SSH key with the same fingerprint already exists"
    assert same["details"] == {"fields": [{"name": "public_key"}]}
    await emulator.ok("DELETE", key.path)
    await emulator.expect("not_found", "DELETE", key.path)
    again = await emulator.make("/ssh_keys", name="key", public_key=KEY)
    assert again["id"] > key["id"], "ids are not used again"


async def test_a_placement_group_has_at_most_ten_servers(emulator: Emulator):
    group = await emulator.make("/placement_groups", name="group", type="spread")
    for number in range(10):
        await emulator.make_server(f"s{number}", placement_group=group["id"])
    error = await emulator.refused("POST", "/servers", {**SERVER, "placement_group": group["id"]})
    assert error["code"] == "service_error"
    assert error["message"] == f"placement group {group['id']} already contains 10 servers"
    await emulator.expect("resource_in_use", "DELETE", group.path)


async def test_joining_and_leaving_a_placement_group(emulator: Emulator):
    group = await emulator.make("/placement_groups", name="g", type="spread")
    server, own = await emulator.make_server(), {"placement_group": group["id"]}
    join = f"{server.path}/actions/add_to_placement_group"
    await emulator.deny("server_not_stopped", join, **own)
    await emulator.act(server.path, "poweroff")
    assert (await emulator.act(server.path, "add_to_placement_group", **own))["status"] == "running"
    assert (await emulator.get(group.path))["servers"] == [server["id"]]
    await emulator.deny("already_in_placement_group", join, **own)
    await emulator.act(server.path, "remove_from_placement_group")
    await emulator.deny("not_in_placement_group", f"{server.path}/actions/remove_from_placement_group")


async def test_primary_ips_are_assigned_to_stopped_servers(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    nowhere = {"enable_ipv4": False, "enable_ipv6": False}
    server = await emulator.make_server(public_net=nowhere, networks=[network["id"]])
    ip = await new_ip(emulator, "ipv4")
    assignee = {"assignee_type": "server", "assignee_id": server["id"]}
    await emulator.deny("server_not_stopped", f"{ip.path}/actions/assign", **assignee)
    await emulator.act(server.path, "poweroff")
    await emulator.act(ip.path, "assign", **assignee)
    assert (await emulator.get(server.path))["public_net"]["ipv4"]["ip"] == ip["ip"]
    await emulator.deny("primary_ip_already_assigned", f"{ip.path}/actions/assign", **assignee)
    await emulator.expect("must_be_unassigned", "DELETE", ip.path)
    await emulator.deny("server_has_ipv4", "/primary_ips", name="second", type="ipv4", **assignee)
    third = await emulator.ok("POST", "/primary_ips", {"name": "third", "type": "ipv6", **assignee})
    assert third["action"]["command"] == "assign_primary_ip"
    assert third["primary_ip"]["assignee_id"] == server["id"]
    await emulator.act(ip.path, "unassign")
    await emulator.deny("primary_ip_not_assigned", f"{ip.path}/actions/unassign")
    await emulator.ok("DELETE", ip.path)


async def test_the_address_of_a_target_cannot_be_unassigned(emulator: Emulator):
    server = await emulator.make_server(start_after_create=False)
    target, net = server_target(server), server["public_net"]
    lb = {"name": "lb", "load_balancer_type": "lb11", "location": "fsn1"}
    balancer = await emulator.make("/load_balancers", **lb, targets=[target])
    ipv4, ipv6 = (f"/primary_ips/{net[family]['id']}" for family in ("ipv4", "ipv6"))
    await emulator.deny((422, "server_is_load_balancer_target"), f"{ipv4}/actions/unassign")
    await emulator.act(ipv6, "unassign")
    await emulator.act(balancer.path, "remove_target", **target)
    await emulator.act(ipv4, "unassign")


async def test_primary_ips_on_their_own(emulator: Emulator):
    ip = await new_ip(emulator, "ipv6", labels={"a": "b"})
    assert ip["ip"] == "2001:db8:0:1::/64"
    for text, found in ((ip["ip"], 1), (ip["ip"].removesuffix("/64"), 1), ("2001:db8::", 0)):
        assert len(await emulator.get("/primary_ips", params={"ip": text})) == found, text
    name = {"ip": "2001:db8:0:1::7", "dns_ptr": "a.example.com"}
    assert (await emulator.act(ip.path, "change_dns_ptr", **name))["dns_ptr"] == [name]
    await emulator.ok("PUT", ip.path, {"auto_delete": True})
    await emulator.deny("invalid_input", f"{ip.path}/actions/change_protection", delete=True)
    await emulator.ok("PUT", ip.path, {"auto_delete": False, "name": "new"})
    await emulator.act(ip.path, "change_protection", delete=True)
    await emulator.expect("protected", "DELETE", ip.path)


async def test_firewalls(emulator: Emulator):
    server = await emulator.make_server(labels={"role": "web"})
    target = server_target(server)
    answer = await emulator.ok("POST", "/firewalls", {"name": "fw", "rules": [RULE], "apply_to": [target]})
    assert [action["command"] for action in answer["actions"]] == ["set_firewall_rules", "apply_firewall"]
    path = f"/firewalls/{answer['firewall']['id']}"
    apply = f"{path}/actions/apply_to_resources"
    await emulator.deny("firewall_already_applied", apply, apply_to=[target])
    await emulator.ok("POST", apply, {"apply_to": [BY_LABEL]})
    assert (await emulator.get(path))["applied_to"][1]["applied_to_resources"] == [target]
    await emulator.expect("resource_in_use", "DELETE", path)
    changed = (await emulator.ok("POST", f"{path}/actions/set_rules", {"rules": []}))["actions"]
    resources = {action["command"]: len(action["resources"]) for action in changed}
    assert list(resources.items()) == [("set_firewall_rules", 1), ("apply_firewall", 2)]
    await emulator.ok("POST", f"{path}/actions/remove_from_resources", {"remove_from": [BY_LABEL]})
    await emulator.ok("DELETE", server.path)
    assert (await emulator.get(path))["applied_to"] == []
    code = "firewall_resource_not_found"
    await emulator.deny((404, code), apply, apply_to=[target])
    await emulator.deny((422, code), "/firewalls", name="other", apply_to=[target])
    await emulator.ok("DELETE", path)


async def test_inbound_rules_come_first_with_ranges_in_their_shortest_form(emulator: Emulator):
    out = {"direction": "out", "protocol": "tcp", "port": "80", "destination_ips": ["0.0.0.0/0"]}
    into = {**RULE, "source_ips": ["2001:DB8:0::0/32", "::/0", "10.0.0.0/8"]}
    rules = [out, {**into, "port": "82"}, {**into, "port": "81"}]
    shown = (await emulator.make("/firewalls", name="fw", rules=rules))["rules"]
    assert [rule["direction"] + rule["port"] for rule in shown] == ["in82", "in81", "out80"]
    assert shown[0]["source_ips"] == ["2001:db8::/32", "::/0", "10.0.0.0/8"]


async def test_a_firewall_applied_by_label_cannot_be_removed_from_a_server(emulator: Emulator):
    server = await emulator.make_server(labels={"role": "web"})
    other = await emulator.make_server("other")
    firewall = await emulator.make("/firewalls", name="fw", apply_to=[BY_LABEL])
    remove = f"{firewall.path}/actions/remove_from_resources"
    by_label = (422, "firewall_managed_by_label_selector")
    await emulator.deny(by_label, remove, remove_from=[server_target(server)])
    await emulator.deny((404, "firewall_resource_not_found"), remove, remove_from=[server_target(other)])


async def test_a_server_without_public_addresses_and_its_firewall(emulator: Emulator):
    server = await emulator.make_server(start_after_create=False)
    firewall = await emulator.make("/firewalls", name="fw", apply_to=[server_target(server)])
    for address in await emulator.get("/primary_ips"):
        await emulator.act(f"/primary_ips/{address['id']}", "unassign")
    path, targets = f"{firewall.path}/actions", [server_target(server)]
    await emulator.ok("POST", f"{path}/remove_from_resources", {"remove_from": targets})
    await emulator.deny("private_net_only_server", f"{path}/apply_to_resources", apply_to=targets)


WEB = FirewallRule("in", "tcp", (80, 80), ("0.0.0.0/0",))


async def test_the_backend_gets_the_union_of_all_rules_after_every_change(start: Start):
    backend = RecordingBackend()

    def rules_of_servers() -> Any:
        return backend.of("put_firewalls")[-1]

    emulator = await start(backend)
    rules = [RULE, {**RULE, "port": "1000-2000"}, {**RULE, "protocol": "icmp", "port": None}]
    first = await emulator.make("/firewalls", name="one", rules=[RULE])
    server = await emulator.make_server(firewalls=[{"firewall": first["id"]}])
    number = server["id"]
    assert rules_of_servers() == {number: (WEB,)}
    names = [name for name, *_ in backend.calls]
    assert names.index("put_firewalls") < names.index("power_on"), "a server starts behind its firewall"
    await emulator.make("/firewalls", name="two", rules=rules, apply_to=[BY_LABEL])
    assert rules_of_servers() == {number: (WEB,)}
    await emulator.ok("PUT", server.path, {"labels": {"role": "web"}})
    more = (WEB, FirewallRule("in", "tcp", (1000, 2000), WEB.ranges))
    assert rules_of_servers() == {number: (*more, FirewallRule("in", "icmp", None, WEB.ranges))}
    out = {"direction": "out", "protocol": "tcp", "port": "any", "destination_ips": ["::/0"]}
    await emulator.ok("POST", f"{first.path}/actions/set_rules", {"rules": [out]})
    await emulator.ok("PUT", server.path, {"labels": {}})
    assert rules_of_servers() == {number: (FirewallRule("out", "tcp", None, ("::/0",)),)}
    backend.failure = BackendError("nft refuses")
    remove = f"{first.path}/actions/remove_from_resources"
    (action,) = (await emulator.ok("POST", remove, {"remove_from": [server_target(server)]}))["actions"]
    assert action["error"] == {"code": "action_failed", "message": "nft refuses"}
    backend.failure = None
    await emulator.ok("DELETE", server.path)
    assert rules_of_servers() == {}


async def test_a_server_has_at_most_five_firewalls(emulator: Emulator):
    target = server_target(await emulator.make_server(labels={"role": "web"}))
    for number, each in enumerate([target, BY_LABEL, target, BY_LABEL, target]):
        await emulator.make("/firewalls", name=f"fw{number}", apply_to=[each])
    for each in (target, BY_LABEL):
        await emulator.deny("resource_limit_exceeded", "/firewalls", name="more", apply_to=[each])
    wide = {**RULE, "source_ips": [f"10.0.{n}.0/24" for n in range(100)]}
    await emulator.make("/firewalls", name="wide", rules=[wide] * 5)
    await emulator.deny(["rules"], "/firewalls", name="wider", rules=[*[wide] * 5, RULE])
