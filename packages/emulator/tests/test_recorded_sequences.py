"""What the Terraform provider asks, in its order, written down as requests of our own words.

What the client below it asks, that asks itself: ``test_hcloud_go.py``.

Sources, read in November 2026: ``hcloud/action_waiter.go`` of hcloud-go, which waits for all running
actions in one listing; ``internal/zone/resource.go`` and ``internal/zonerrset/resource.go`` of the
Terraform provider, which ask for the next change before the last has ended and read the object again at
the end.
"""

from __future__ import annotations

from typing import Any

import pytest
import requests

SECONDS = 60


class Client:
    """Asks as these clients do.

    Args:
        service: The running cloud.
    """

    def __init__(self, service: requests.Session, base: str) -> None:
        self._service, self._base = service, base
        service.post(f"{base}/_sandbox/reset", timeout=SECONDS).raise_for_status()

    def ask(self, method: str, path: str, body: Any = None, status: int = 200, **query: Any) -> Any:
        """One request, and the status that these clients count on."""
        url = f"{self._base}/v1{path}"
        answer = self._service.request(method, url, json=body, params=query, timeout=SECONDS)
        assert answer.status_code == status, f"{method} {path}: {answer.text}"
        return answer.json() if answer.content else {}

    def act(self, one: str, command: str, body: Any = None) -> None:
        """An action on an object, and the wait for its end."""
        self.wait(self.ask("POST", f"{one}/actions/{command}", body, 201))

    def refused(self, one: str, command: str, body: Any) -> Any:
        """The error that an action on an object is answered with, of whichever status."""
        url = f"{self._base}/v1{one}/actions/{command}"
        return self._service.post(url, json=body, timeout=SECONDS).json()["error"]

    def wait(self, *answers: Any) -> None:
        """For the actions in some answers, all in one listing, as hcloud-go does."""
        found = [one for answer in answers for one in [answer.get("action"), *answer.get("actions", [])]]
        running = {action["id"] for action in found if action}
        for _ in range(100):
            found = self.ask("GET", "/actions", id=sorted(running), sort=["status", "id"])["actions"]
            assert {action["id"] for action in found} == running  # else hcloud-go gives up
            assert not [action for action in found if action["error"]]
            running -= {action["id"] for action in found if action["status"] != "running"}
            if not running:
                return
        pytest.fail(f"actions {running} go on")


@pytest.fixture
def client(service) -> Client:
    return Client(service, service.base)


def test_a_zone_of_terraform(client):
    body = {"name": "example.com", "mode": "primary", "ttl": 3600, "labels": {"key": "value"}}
    made = client.ask("POST", "/zones", body, 201)
    one = f"/zones/{made['zone']['id']}"
    protected = client.ask("POST", f"{one}/actions/change_protection", {"delete": True}, 201)
    client.wait(made, protected)
    assert client.ask("GET", one)["zone"]["protection"] == {"delete": True}
    # An update asks for everything at once, and then for the labels, also where none changed.
    slower = client.ask("POST", f"{one}/actions/change_ttl", {"ttl": 10800}, 201)
    free = client.ask("POST", f"{one}/actions/change_protection", {"delete": False}, 201)
    client.wait(slower, free)
    zone = client.ask("PUT", one, {})["zone"]
    assert (zone["ttl"], zone["protection"], zone["labels"]) == (10800, {"delete": False}, {"key": "value"})
    client.wait(client.ask("DELETE", one, status=201))
    client.ask("GET", one, status=404)


def test_a_secondary_zone_of_terraform(client):
    first, second = [{"address": "198.51.100.1", "port": 53}], [{"address": "198.51.100.2", "port": 53}]
    body = {"name": "example.com", "mode": "secondary", "primary_nameservers": first}
    made = client.ask("POST", "/zones", body, 201)
    one = f"/zones/{made['zone']['id']}"
    client.wait(made)
    changed = client.ask(
        "POST", f"{one}/actions/change_primary_nameservers", {"primary_nameservers": second}, 201
    )
    client.wait(changed)
    assert client.ask("PUT", one, {})["zone"]["primary_nameservers"] == second


def test_a_record_set_of_terraform(client):
    client.wait(client.ask("POST", "/zones", {"name": "example.com", "mode": "primary"}, 201))
    records = [{"value": "201.78.10.45", "comment": "web server 1"}]
    body = {"name": "www", "type": "A", "ttl": 10800, "labels": {"key": "value"}, "records": records}
    made = client.ask("POST", "/zones/example.com/rrsets", body, 201)
    assert made["rrset"]["id"] == "www/A"  # the provider splits it again
    one = "/zones/example.com/rrsets/www/A"
    kept = client.ask("POST", f"{one}/actions/change_protection", {"change": True}, 201)
    client.wait(made, kept)
    assert client.ask("GET", one)["rrset"]["records"] == records
    # An update lifts the protection first and waits; TTL and records go out together, the labels last.
    client.wait(client.ask("POST", f"{one}/actions/change_protection", {"change": False}, 201))
    slower = client.ask("POST", f"{one}/actions/change_ttl", {"ttl": None}, 201)
    other = client.ask("POST", f"{one}/actions/set_records", {"records": [{"value": "201.78.10.46"}]}, 201)
    client.wait(slower, other)
    rrset = client.ask("PUT", one, {"labels": {}})["rrset"]
    assert (rrset["ttl"], rrset["labels"], rrset["records"]) == (None, {}, [{"value": "201.78.10.46"}])
    client.wait(client.ask("DELETE", one, status=201))
    client.ask("GET", one, status=404)
    client.ask("DELETE", one, status=404)  # which the provider takes for done


def test_the_soa_record_of_terraform_is_read_not_made(client):
    client.wait(client.ask("POST", "/zones", {"name": "example.com", "mode": "primary"}, 201))
    one = "/zones/example.com/rrsets/@/SOA"
    (record,) = client.ask("GET", one)["rrset"]["records"]
    name, mail, serial, *times = record["value"].split(" ")
    assert int(serial) > 2**20
    wanted = " ".join([name, mail, "0", *times[:-1], "600"])  # the provider writes 0 for the serial
    client.wait(client.ask("POST", f"{one}/actions/set_records", {"records": [{"value": wanted}]}, 201))
    again = client.ask("PUT", one, {})["rrset"]["records"][0]["value"].split(" ")
    assert (again[-1], int(again[2]) > int(serial)) == ("600", True)


def test_actions_are_waited_for_together(client):
    group = client.ask("POST", "/placement_groups", {"name": "g", "type": "spread"}, 201)["placement_group"]
    body = {"server_type": "cx23", "image": "debian-12", "placement_group": group["id"]}
    made = [client.ask("POST", "/servers", {"name": f"s{n}", **body}, 201) for n in range(3)]
    client.wait(*made, *({"action": action} for one in made for action in one["next_actions"]))
    for one in made:
        path = f"/servers/{one['server']['id']}"
        assert client.ask("GET", path)["server"]["status"] == "running"
        client.wait(client.ask("DELETE", path))
    client.ask("DELETE", f"/placement_groups/{group['id']}", status=204)


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDlzUOKiDxUmMbMXZPvFdYWhZPGUBsfIAzmyFAxRPBYN someone"
NETWORK = {"name": "n", "ip_range": "10.0.0.0/8", "labels": {"a": "b"}, "expose_routes_to_vswitch": False}
SUBNET = {"type": "cloud", "ip_range": "10.0.1.0/24", "network_zone": "eu-central"}


def network(client: Client) -> tuple[int, str]:
    """ID and path of a network with a subnet."""
    number = client.ask("POST", "/networks", NETWORK, 201)["network"]["id"]
    client.act(f"/networks/{number}", "add_subnet", SUBNET)
    return number, f"/networks/{number}"


def server(client: Client, **more: Any) -> tuple[int, str]:
    """ID and path of a server, made as the provider makes one."""
    (kind,) = client.ask("GET", "/server_types", name="cpx22")["server_types"]
    wanted = {"name": "debian-12", "architecture": kind["architecture"], "include_deprecated": "true"}
    (image,) = client.ask("GET", "/images", **wanted)["images"]
    assert image["deprecation"] is None  # else it asks for allow_deprecated_images
    body = {"name": "s", "server_type": "cpx22", "image": image["id"], "location": "fsn1", **more}
    made = client.ask("POST", "/servers", body, 201)
    client.wait(made)
    for action in made["next_actions"]:
        client.wait({"action": action})
    return made["server"]["id"], f"/servers/{made['server']['id']}"


def test_a_network_of_terraform(client):
    _, one = network(client)
    client.act(one, "change_protection", {"delete": True})
    client.act(one, "add_route", {"destination": "192.168.0.0/16", "gateway": "10.0.1.2"})
    made = client.ask("GET", one)["network"]
    assert made["subnets"] == [{**SUBNET, "gateway": "10.0.0.1", "vswitch_id": None}]
    assert made["routes"] == [{"destination": "192.168.0.0/16", "gateway": "10.0.1.2"}]
    assert (made["labels"], made["protection"]) == ({"a": "b"}, {"delete": True})
    client.ask("PUT", one, {"name": "other"})
    assert client.ask("PUT", one, {"labels": {}})["network"]["name"] == "other"
    client.act(one, "change_protection", {"delete": False})
    client.act(one, "delete_route", {"destination": "192.168.0.0/16", "gateway": "10.0.1.2"})
    client.act(one, "delete_subnet", {"ip_range": "10.0.1.0/24"})
    left = client.ask("GET", one)["network"]
    assert (left["subnets"], left["routes"], left["labels"]) == ([], [], {})
    client.ask("DELETE", one, status=204)
    assert client.ask("DELETE", one, status=404)["error"]["code"] == "not_found"  # taken for done


def test_a_server_of_terraform(client):
    key = {"name": "k", "public_key": KEY}
    client.ask("POST", "/ssh_keys", key, 201)
    (found,) = client.ask("GET", "/ssh_keys", name="k")["ssh_keys"]
    inside, _ = network(client)
    number, one = server(client, ssh_keys=[found["id"]], labels={"a": "b"})
    client.act(one, "attach_to_network", {"network": inside, "ip": "10.0.1.5", "alias_ips": ["10.0.1.6"]})
    client.act(one, "enable_backup", {})
    client.act(one, "change_protection", {"delete": True, "rebuild": True})
    made = client.ask("GET", one)["server"]
    assert made["public_net"]["ipv6"]["ip"].endswith("::/64")  # the provider appends a 1 to the address
    assert (made["status"], made["labels"], made["server_type"]["name"]) == ("running", {"a": "b"}, "cpx22")
    assert (made["image"]["name"], made["location"]["name"]) == ("debian-12", "fsn1")
    assert made["backup_window"]
    assert made["protection"] == {"delete": True, "rebuild": True}
    (attached,) = made["private_net"]
    assert (attached["network"], attached["ip"], attached["alias_ips"]) == (inside, "10.0.1.5", ["10.0.1.6"])
    assert attached["mac_address"]
    # An update sends name and labels each by itself, and changes the type of a server that it has put off.
    client.ask("PUT", one, {"name": "other"})
    assert client.ask("PUT", one, {"labels": {}})["server"]["labels"] == {}
    client.act(one, "poweroff")
    client.act(one, "change_type", {"server_type": "cpx32", "upgrade_disk": False})
    client.act(one, "disable_backup")
    client.act(one, "change_alias_ips", {"network": inside, "alias_ips": []})
    client.act(one, "detach_from_network", {"network": inside})
    client.act(one, "attach_to_network", {"network": inside, "ip": "10.0.1.9"})
    assert client.refused(one, "attach_to_network", {"network": inside})["code"] == "server_already_attached"
    client.act(one, "change_protection", {"delete": False, "rebuild": False})
    left = client.ask("GET", one)["server"]
    assert (left["name"], left["server_type"]["name"], left["status"]) == ("other", "cpx32", "running")
    assert (left["backup_window"], left["private_net"][0]["ip"]) == (None, "10.0.1.9")
    client.act(one, "poweron")
    client.act(one, "shutdown")  # with shutdown_before_deletion, up to half a minute of looks at the status
    assert client.ask("GET", one)["server"]["status"] == "off"
    client.wait(client.ask("DELETE", one))
    client.ask("GET", one, status=404)
    assert not client.ask("GET", "/servers", name=str(number))["servers"]


def test_the_firewalls_of_a_server_of_terraform(client):
    rule = {"direction": "in", "protocol": "icmp", "source_ips": ["0.0.0.0/0"]}
    walls = [
        client.ask("POST", "/firewalls", {"name": name, "rules": [rule]}, 201)["firewall"]["id"]
        for name in ("a", "b")
    ]
    number, one = server(client, firewalls=[{"firewall": walls[0]}])
    resources = [{"type": "server", "server": {"id": number}}]
    client.act(f"/firewalls/{walls[0]}", "remove_from_resources", {"remove_from": resources})
    client.act(f"/firewalls/{walls[1]}", "apply_to_resources", {"apply_to": resources})
    (applied,) = client.ask("GET", one)["server"]["public_net"]["firewalls"]
    assert applied == {"id": walls[1], "status": "applied"}


def test_a_server_of_terraform_without_public_addresses(client):
    inside, _ = network(client)
    nothing = {"enable_ipv4": False, "enable_ipv6": False}
    number, one = server(client, start_after_create=False, public_net=nothing)
    assert client.ask("GET", one)["server"]["status"] == "off"
    client.act(one, "attach_to_network", {"network": inside})
    for command in ("poweron", "poweroff", "poweron"):  # "for the network interface"
        client.act(one, command)
    outside = client.ask("GET", one)["server"]["public_net"]
    assert (outside["ipv4"], outside["ipv6"]) == (None, None)
    # Later it wants an address of its own, which it gets while it is off.
    client.act(one, "poweroff")
    body = {
        "name": "p",
        "type": "ipv4",
        "assignee_type": "server",
        "assignee_id": number,
        "auto_delete": True,
    }
    address = client.ask("POST", "/primary_ips", body, 201)
    client.wait(address)
    client.act(one, "poweron")
    found = client.ask("GET", one)["server"]["public_net"]["ipv4"]
    assert (found["id"], found["ip"]) == (address["primary_ip"]["id"], address["primary_ip"]["ip"])
    # And no more: it is taken from the server, and deleted.
    client.act(one, "poweroff")
    client.act(f"/primary_ips/{found['id']}", "unassign")
    client.ask("DELETE", f"/primary_ips/{found['id']}", status=204)
    client.act(one, "poweron")
    assert client.ask("GET", one)["server"]["public_net"]["ipv4"] is None


@pytest.fixture
def balancer(client) -> str:
    body = {"name": "lb", "load_balancer_type": "lb11", "location": "fsn1", "labels": {"a": "b"}}
    made = client.ask("POST", "/load_balancers", {**body, "algorithm": {"type": "round_robin"}}, 201)
    client.wait(made)
    return f"/load_balancers/{made['load_balancer']['id']}"


def test_a_load_balancer_of_terraform(client, balancer):
    client.act(balancer, "change_protection", {"delete": True})
    made = client.ask("GET", balancer)["load_balancer"]
    assert (made["load_balancer_type"]["name"], made["location"]["network_zone"]) == ("lb11", "eu-central")
    assert (made["algorithm"], made["targets"]) == ({"type": "round_robin"}, [])
    assert (made["labels"], made["protection"]) == ({"a": "b"}, {"delete": True})
    assert made["public_net"]["ipv4"]["ip"]
    assert made["public_net"]["ipv6"]["ip"]
    client.ask("PUT", balancer, {"name": "other"})
    client.act(balancer, "change_type", {"load_balancer_type": "lb21"})
    client.act(balancer, "change_algorithm", {"type": "least_connections"})
    client.ask("PUT", balancer, {"labels": {}})
    client.act(balancer, "change_protection", {"delete": False})
    left = client.ask("GET", balancer)["load_balancer"]
    assert (left["name"], left["load_balancer_type"]["name"], left["labels"]) == ("other", "lb21", {})
    assert left["algorithm"] == {"type": "least_connections"}
    client.wait(client.ask("DELETE", balancer, status=201))
    assert client.ask("DELETE", balancer, status=404)["error"]["code"] == "not_found"


def test_a_network_and_targets_of_a_load_balancer_of_terraform(client, balancer):
    inside, there = network(client)
    number, one = server(client, labels={"role": "web"})
    client.act(one, "attach_to_network", {"network": inside})
    client.act(balancer, "attach_to_network", {"network": inside, "ip": "10.0.1.100"})
    again = client.refused(balancer, "attach_to_network", {"network": inside})
    assert again["code"] == "load_balancer_already_attached"  # then it looks whether this is the network
    client.act(balancer, "enable_public_interface")  # although it is enabled
    target = {"type": "server", "server": {"id": number}}
    client.act(balancer, "add_target", {**target, "use_private_ip": True})
    assert client.refused(balancer, "add_target", target)["code"] == "target_already_defined"
    chosen = {"type": "label_selector", "label_selector": {"selector": "role=web"}}
    client.act(balancer, "add_target", {**chosen, "use_private_ip": True})
    made = client.ask("GET", balancer)["load_balancer"]
    assert made["public_net"]["enabled"] is True
    assert made["private_net"] == [{"network": inside, "ip": "10.0.1.100"}]
    found = {kept["type"]: kept for kept in made["targets"]}
    assert found["server"]["server"]["id"] == number
    assert found["server"]["use_private_ip"] is True
    assert found["label_selector"]["label_selector"] == {"selector": "role=web"}
    assert [part["server"]["id"] for part in found["label_selector"]["targets"]] == [number]
    # An update of a target removes and adds; what is gone already is known by its code.
    client.act(balancer, "remove_target", target)
    gone = client.refused(balancer, "remove_target", target)
    assert gone["code"] == "load_balancer_target_not_found" or "target not found" in gone["message"]
    client.act(balancer, "add_target", {**target, "use_private_ip": False})
    client.act(balancer, "remove_target", target)
    client.act(balancer, "remove_target", chosen)
    client.act(balancer, "disable_public_interface")
    client.act(balancer, "detach_from_network", {"network": inside})
    left = client.ask("GET", balancer)["load_balancer"]
    assert (left["targets"], left["private_net"], left["public_net"]["enabled"]) == ([], [], False)
    client.act(one, "detach_from_network", {"network": inside})
    client.act(there, "delete_subnet", {"ip_range": "10.0.1.0/24"})


def test_a_service_of_a_load_balancer_of_terraform(client, balancer):
    check = {"protocol": "http", "port": 8080, "interval": 10, "timeout": 5, "retries": 5}
    asked = {"domain": "example.com", "path": "/healthy", "response": "", "tls": False}
    web = {"sticky_sessions": True, "cookie_name": "C", "cookie_lifetime": 600}
    service = {
        "protocol": "http",
        "listen_port": 80,
        "destination_port": 8080,
        "http": {**web, "redirect_http": False, "certificates": []},
        "health_check": {**check, "http": {**asked, "status_codes": ["2??"]}},
    }
    client.act(balancer, "add_service", service)
    (made,) = client.ask("GET", balancer)["load_balancer"]["services"]
    assert {key: made[key] for key in ("protocol", "listen_port", "destination_port", "proxyprotocol")} == {
        **{key: service[key] for key in ("protocol", "listen_port", "destination_port")},
        "proxyprotocol": False,
    }
    assert {key: made["http"][key] for key in web} == web
    assert not made["http"].get("redirect_http")  # which HTTPS alone has, and the provider takes for no
    assert made["health_check"] == service["health_check"]
    # Its number is its listening port; an update names all but that.
    change = {"protocol": "tcp", "listen_port": 80, "proxyprotocol": True, "destination_port": 9090}
    client.act(balancer, "update_service", {**change, "health_check": {**check, "protocol": "tcp"}})
    (left,) = client.ask("GET", balancer)["load_balancer"]["services"]
    assert {key: left[key] for key in change} == change
    assert {key: left["health_check"][key] for key in check} == {**check, "protocol": "tcp"}
    client.act(balancer, "delete_service", {"listen_port": 80})
    assert client.ask("GET", balancer)["load_balancer"]["services"] == []
