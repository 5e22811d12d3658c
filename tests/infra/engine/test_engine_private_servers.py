import json
from pathlib import Path
from typing import Any

import pytest

from tests.pulumi_cloud import EmulatedCloud, lab_at
from tests.pulumi_lab import Lab

pytestmark = pytest.mark.slow

PROGRAM = """
import dataclasses, json
from ccm_pulumi.components import HetznerNetwork, HetznerServers, settings
E = os.environ.get
private = E("PRIVATE") == "yes"
wanted = settings(
    ssh_allowed_cidrs="any", pools=json.loads(E("POOLS")), private_nodes=private,
    api_endpoint="load-balancer" if private else "server", image=E("IMAGE", "ubuntu-24.04"),
    allow_deletion_of=json.loads(E("ALLOW", "[]")),
)
wanted = dataclasses.replace(wanted, kubeconfig_path="a kubeconfig")  # these servers are only records
network = HetznerNetwork("n", wanted)
servers = HetznerServers("s", wanted, network)
pulumi.export("addresses", [server.private_ip for server in [*servers.controls, *servers.workers]])
"""
POOLS = '[{"name": "a", "count": 2}, {"name": "web", "count": 1, "public_ipv4": true}]'
NAT, CONTROL = "ccm-from-scratch-nat", "ccm-from-scratch-control"
A_1, A_2, WEB = (f"ccm-from-scratch-{role}" for role in ("a-1", "a-2", "web-1"))
PRIVATE = {NAT: True, CONTROL: False, A_1: False, A_2: False, WEB: True}
"""Which servers are public with PRIVATE=yes."""


@pytest.fixture
def lab(tmp_path: Path, cloud: EmulatedCloud) -> Lab:
    lab = lab_at(tmp_path, cloud, POOLS=POOLS)
    lab.program(PROGRAM)
    return lab


def servers(cloud: EmulatedCloud) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in cloud.get("/servers", per_page=50)["servers"]}


def public(cloud: EmulatedCloud) -> dict[str, bool]:
    return {
        name: bool(item["public_net"]["ipv4"] or item["public_net"]["ipv6"])
        for name, item in servers(cloud).items()
    }


def only(server: dict[str, Any]) -> str:
    """The setting that allows the deletion of one server."""
    return json.dumps([str(server["id"])])


def routes(cloud: EmulatedCloud) -> list[dict[str, str]]:
    (network,) = cloud.get("/networks")["networks"]
    return network["routes"]


def test_servers_behind_nat_are_recreated_with_public_addresses_and_back(
    lab: Lab, cloud: EmulatedCloud
) -> None:
    lab.up(PRIVATE="yes")
    there = servers(cloud)
    assert public(cloud) == PRIVATE
    assert {item["status"] for item in there.values()} == {"running"}
    (gateway,) = there[NAT]["private_net"]
    assert routes(cloud) == [{"destination": "0.0.0.0/0", "gateway": gateway["ip"]}]
    own = [there[name]["private_net"][0]["ip"] for name in (CONTROL, A_1, A_2, WEB)]
    assert lab.state()["resources"][0]["outputs"]["addresses"] == own
    again = lab.up(PRIVATE="yes")
    assert not any(f" {word}" in again for word in ("created", "updated", "replaced", "deleted")), again

    # the one that others are reached through keeps its address
    lab.up(PRIVATE="yes", IMAGE="debian-12", ALLOW=only(there[CONTROL]))
    renewed = servers(cloud)
    assert renewed[NAT]["id"] == there[NAT]["id"]
    assert renewed[A_1]["id"] != there[A_1]["id"]

    lab.up(ALLOW=only(renewed[CONTROL]))
    before = servers(cloud)
    assert public(cloud) == dict.fromkeys((CONTROL, A_1, A_2, WEB), True)
    assert not routes(cloud)

    lab.up(PRIVATE="yes", ALLOW=only(before[CONTROL]))
    after = servers(cloud)
    assert public(cloud) == PRIVATE
    assert {name for name in before if before[name]["id"] == after[name]["id"]} == {WEB}

    lab.ask(["destroy", "--yes"])
    assert servers(cloud) == {}
    assert cloud.get("/networks")["networks"] == []
