from pathlib import Path
from typing import Any

import pytest

from tests.pulumi_cloud import EmulatedCloud, lab_at
from tests.pulumi_lab import Lab

pytestmark = pytest.mark.slow

PROGRAM = """
import dataclasses
from ccm_pulumi.components import HetznerNetwork, HetznerServers, settings
E = os.environ.get
wanted = settings(
    ssh_allowed_cidrs="any", worker_count=1, network_cidr=E("RANGE"), subnet_cidr=E("SUBNET"),
    cluster_cidr="10.0.128.0/17", import_network=E("NETWORK"),
)
wanted = dataclasses.replace(wanted, kubeconfig_path="a kubeconfig")  # these servers are only records
servers = HetznerServers("s", wanted, HetznerNetwork("n", wanted))
"""
SUBNET = "10.0.1.0/24"


@pytest.fixture
def mine(cloud: EmulatedCloud) -> int:
    """A network as a person has made it, with a server and a load balancer of another cluster in it."""
    body: dict[str, Any] = {"name": "mine", "ip_range": "10.0.0.0/16", "labels": {"team": "shop"}}
    network = cloud.send("POST", "/networks", body)["network"]["id"]
    subnet = {"type": "cloud", "network_zone": "eu-central", "ip_range": SUBNET}
    cloud.send("POST", f"/networks/{network}/actions/add_subnet", subnet)
    server = {"server_type": "cpx22", "image": "ubuntu-24.04", "location": "fsn1", "networks": [network]}
    cloud.send("POST", "/servers", {"name": "old", **server})
    balancer = {"load_balancer_type": "lb11", "location": "fsn1", "network": network}
    cloud.send("POST", "/load_balancers", {"name": "old", **balancer})
    return network


@pytest.fixture
def lab(tmp_path: Path, cloud: EmulatedCloud, mine: int) -> Lab:
    lab = lab_at(tmp_path, cloud, NETWORK=str(mine), RANGE="10.0.0.0/16", SUBNET=SUBNET)
    lab.program(PROGRAM)
    return lab


def networks(cloud: EmulatedCloud) -> list[dict[str, Any]]:
    """All networks, without what changes with every server."""
    changing = {"servers", "load_balancers"}
    found = cloud.get("/networks", per_page=50)["networks"]
    return [{key: value for key, value in item.items() if key not in changing} for item in found]


def test_once_the_setting_is_gone_the_network_is_the_stacks(
    lab: Lab, cloud: EmulatedCloud, mine: int
) -> None:
    assert "2 imported" in lab.up()
    lab.up(NETWORK="")
    (network,) = networks(cloud)
    assert network["id"] == mine
    assert network["name"] == "ccm-from-scratch"
    assert network["labels"]["cluster"] == "ccm-from-scratch"
    (old,) = [item for item in cloud.get("/servers")["servers"] if item["name"] == "old"]
    cloud.send("DELETE", f"/servers/{old['id']}")
    (balancer,) = cloud.get("/load_balancers")["load_balancers"]
    cloud.send("DELETE", f"/load_balancers/{balancer['id']}")
    lab.ask(["destroy", "--yes"])
    assert networks(cloud) == []


@pytest.mark.parametrize("other", [{"RANGE": "10.0.0.0/8"}, {"SUBNET": "10.0.2.0/24"}])
def test_a_network_that_is_otherwise_is_not_touched(
    lab: Lab, cloud: EmulatedCloud, other: dict[str, str]
) -> None:
    before = networks(cloud)
    assert lab.run("up", "--yes", **other).status != 0
    assert networks(cloud) == before
