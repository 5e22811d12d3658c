"""What the Terraform provider asks about zones, in its order; ``test_hcloud_go.py`` tests the client below.

Sources, read in November 2026: ``hcloud/action_waiter.go`` of hcloud-go, which waits for all running actions
in one listing; ``internal/zone/resource.go`` and ``internal/zonerrset/resource.go`` of the provider, which
asks for the next change before the last has ended and reads the object again at the end.
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
