"""What several control servers can't follow, made anew by hand: refused before anything changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.engine.engine_cloud import EmulatedCloud
from tests.sandbox.engine.engine_lab import Lab

pytestmark = pytest.mark.slow

# What is installed on a control server compares as ever, and installs nothing.
SEATS = """
from infra.cluster import K3sServerProvider
from pulumi.dynamic import CreateResult, Resource

class SeatProvider(K3sServerProvider):
    def create(self, props):
        return CreateResult("seat", dict(props))
    def delete(self, id, props):
        pass

class Seat(Resource):
    def __init__(self, name, props):
        super().__init__(SeatProvider(), name, props)
"""
PROGRAM = """
from infra.components import HetznerNetwork, settings
from infra.keys import SharedSecret
from seats import Seat

zone = os.environ.get("ZONE", "eu-central")
network = HetznerNetwork("n", settings(ssh_allowed_cidrs="any", network_zone=zone))
if os.environ["SEVERAL"]:
    network.keep_subnet()
token = SharedSecret("token")
member = {"member": {"node": "c-1", "first": True, "labels": {}}} if os.environ["SEVERAL"] else {}
Seat("seat", {
    "server_id": "1", "private_ip": "10.0.0.2",
    "cluster_cidr": "10.244.0.0/16", "service_cidr": "10.43.0.0/16",
    "install_url": "", "channel": "", "version": "v1.36.3+k3s1", "token": token.value, **member,
})
"""
SUBNET = "ccm-from-scratch:index:Network$hcloud:index/networkSubnet:NetworkSubnet::n"
TOKEN = "pulumi-python:dynamic/ccm-from-scratch:SharedSecret::token"
NEEDED = "while several control servers"


@pytest.fixture
def lab(tmp_path: Path, cloud: EmulatedCloud) -> Lab:
    there = {"HCLOUD_ENDPOINT": cloud.endpoint, "PYTHONPATH": str(Path(__file__).parents[3])}
    lab = Lab(tmp_path, {**there, "SEVERAL": "yes"})
    polling = "config:\n  hcloud:pollFunction: constant\n  hcloud:pollInterval: 50ms\n"
    lab.write("Pulumi.yaml", f"name: lab\nruntime: python\n{polling}")
    lab.write("seats.py", SEATS)
    lab.up(PROGRAM)
    return lab


def replaced(what: str) -> tuple[str, ...]:
    return "--replace", f"urn:pulumi:dev::lab::{what}"


@pytest.mark.parametrize("what", [SUBNET, TOKEN])
def test_several_control_servers_keep_subnet_and_token(lab: Lab, what: str) -> None:
    done = lab.run("preview", *replaced(what))
    assert done.status != 0
    assert NEEDED in done.out + done.err
    assert "Traceback" not in done.out + done.err
    assert "to replace" not in lab.run("preview").out


def test_another_zone_is_another_subnet(lab: Lab) -> None:
    done = lab.run("preview", ZONE="us-east")
    assert done.status != 0
    assert "networkZone" in done.out + done.err


def test_without_a_preview_the_token_is_refused_before_the_cluster_has_it(lab: Lab) -> None:
    before = seat(lab)
    done = lab.run("up", "--yes", *replaced(TOKEN))
    assert done.status != 0
    assert NEEDED in done.out + done.err
    assert seat(lab) == before


def seat(lab: Lab) -> dict[str, Any]:
    """What is known of the server, secrets included."""
    exported = json.loads(lab.ask(["stack", "export", "--show-secrets"]))["deployment"]["resources"]
    (found,) = [item for item in exported if item["urn"].endswith("::seat")]
    return found["outputs"]


@pytest.mark.parametrize("what", [SUBNET, TOKEN])
def test_the_only_control_server_follows(lab: Lab, what: str) -> None:
    lab.up(SEVERAL="")
    done = lab.run("up", "--yes", *replaced(what), SEVERAL="")
    assert done.status == 0, done.out + done.err
    assert ("seat replaced" in done.out) is (what == TOKEN)
