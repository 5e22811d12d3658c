"""What the Terraform provider asks, in its order, written down as requests of our own words.

What the client below it asks, that asks itself: ``test_hcloud_go.py``.

Sources, read in November 2026: ``hcloud/action_waiter.go`` of hcloud-go, which waits for all running
actions in one listing; ``internal/zone/resource.go`` and ``internal/zonerrset/resource.go`` of the
Terraform provider, which ask for the next change before the last has ended and read the object again at
the end.
"""

from typing import Any

import pytest
import requests

SECONDS = 60


class Client:
    """Sends requests as these clients do."""

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


def test_the_soa_record_of_terraform(client):
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


NETWORK = {"name": "n", "ip_range": "10.0.0.0/8", "labels": {"a": "b"}, "expose_routes_to_vswitch": False}
SUBNET = {"type": "cloud", "ip_range": "10.0.1.0/24", "network_zone": "eu-central"}


def network(client: Client) -> tuple[int, str]:
    """ID and path of a network with a subnet."""
    number = client.ask("POST", "/networks", NETWORK, 201)["network"]["id"]
    client.act(f"/networks/{number}", "add_subnet", SUBNET)
    return number, f"/networks/{number}"


def test_a_server_of_terraform_without_public_addresses(client):
    inside, _ = network(client)
    nothing = {"enable_ipv4": False, "enable_ipv6": False}
    body = {"name": "s", "server_type": "cpx22", "image": "debian-12", "location": "fsn1"}
    made = client.ask("POST", "/servers", {**body, "start_after_create": False, "public_net": nothing}, 201)
    client.wait(made)
    number, one = made["server"]["id"], f"/servers/{made['server']['id']}"
    assert client.ask("GET", one)["server"]["status"] == "off"
    client.act(one, "attach_to_network", {"network": inside})
    for command in ("poweron", "poweroff", "poweron"):  # "for the network interface"
        client.act(one, command)
    outside = client.ask("GET", one)["server"]["public_net"]
    assert (outside["ipv4"], outside["ipv6"]) == (None, None)
    # Later it gets an address while it is off.
    client.act(one, "poweroff")
    body = {"name": "p", "type": "ipv4", "assignee_type": "server", "assignee_id": number}
    address = client.ask("POST", "/primary_ips", body | {"auto_delete": True}, 201)
    client.wait(address)
    client.act(one, "poweron")
    found = client.ask("GET", one)["server"]["public_net"]["ipv4"]
    assert (found["id"], found["ip"]) == (address["primary_ip"]["id"], address["primary_ip"]["ip"])
    # Then the address is unassigned and deleted.
    client.act(one, "poweroff")
    client.act(f"/primary_ips/{found['id']}", "unassign")
    client.ask("DELETE", f"/primary_ips/{found['id']}", status=204)
    client.act(one, "poweron")
    assert client.ask("GET", one)["server"]["public_net"]["ipv4"] is None
