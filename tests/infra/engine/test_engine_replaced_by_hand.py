import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.pulumi_cloud import EmulatedCloud, lab_at
from tests.pulumi_lab import Lab

pytestmark = pytest.mark.slow

PROGRAM = """
import dataclasses, json
from ccm_pulumi.components import HetznerNetwork, HetznerServers, settings
from ccm_pulumi.servers.keys import SharedSecret
from seats import Seat

E = os.environ.get
wanted = settings(
    ssh_allowed_cidrs="any", network_zone=E("ZONE", "eu-central"), worker_count=0,
    network_cidr=E("NETWORK", "10.0.0.0/8"), subnet_cidr=E("RANGE", "10.0.0.0/24"),
    cluster_cidr=E("PODS", "10.64.0.0/16"),
    allow_deletion_of=json.loads(E("ALLOW", "[]")),
)
wanted = dataclasses.replace(wanted, kubeconfig_path="a kubeconfig", control_count=int(E("CONTROLS", "1")))
network = HetznerNetwork("n", wanted)
servers = HetznerServers("s", wanted, network)
token = SharedSecret("token")
member = {"member": {"node": "c-1", "first": True, "labels": {}}} if E("SEVERAL") else {}
seat = Seat("seat", {
    "server_id": servers.control.server.id, "private_ip": servers.control.private_ip,
    "cluster_cidr": str(wanted.cluster_cidr), "service_cidr": "10.43.0.0/16",
    "install_url": "", "channel": "", "version": "v1.36.3+k3s1", "token": token.value, "installation": None,
    **member,
}, O(delete_before_replace=True, deleted_with=servers.control.server))
servers.guard_installations({servers.control.role: (seat.server_id, seat.installation)})
"""
NETWORK = "ccm-from-scratch:index:Network$hcloud:index/network:Network::n"
SUBNET = "ccm-from-scratch:index:Network$hcloud:index/networkSubnet:NetworkSubnet::n"
TOKEN = "pulumi-python:dynamic/ccm-from-scratch:SharedSecret::token"
SEAT = "pulumi-python:dynamic:Seat::seat"
NEEDED = "while there are several control servers"


@pytest.fixture
def lab(tmp_path: Path, cloud: EmulatedCloud) -> Lab:
    lab = lab_at(tmp_path, cloud)
    lab.write("seats.py", Path(__file__).with_name("seats.py").read_text())
    return lab


def replaced(what: str) -> tuple[str, ...]:
    return "--replace", f"urn:pulumi:dev::lab::{what}"


def seat(lab: Lab) -> dict[str, Any]:
    """What is known of the server, secrets included."""
    exported = json.loads(lab.ask(["stack", "export", "--show-secrets"]))["deployment"]["resources"]
    (found,) = [item for item in exported if item["urn"].endswith("::seat")]
    return found["outputs"]


def test_several_control_servers_keep_their_token_network_and_subnet(lab: Lab) -> None:
    several = {"SEVERAL": "yes", "CONTROLS": "3"}
    lab.up(PROGRAM, **several)
    before = seat(lab)
    up = ("up", "--yes")  # without a preview, as from the automation API
    runs: list[tuple[Sequence[str], dict[str, str], str]] = [
        (("preview", *replaced(TOKEN)), {}, NEEDED),
        (("preview", *replaced(NETWORK)), {}, "networkCidr"),
        (up, {"NETWORK": "10.0.0.0/9"}, "networkCidr"),
        ((*up, *replaced(SUBNET)), {}, "the subnet"),
        (("preview",), {"ZONE": "us-east"}, "the subnet"),
    ]
    for command, more, named in runs:
        done = lab.run(*command, **several, **more)
        assert done.status != 0
        assert named in done.out + done.err
        assert "Traceback" not in done.out + done.err
    assert "to replace" not in lab.ask(["preview"], **several)
    done = lab.run(*up, *replaced(TOKEN), **several)
    assert done.status != 0
    assert NEEDED in done.out + done.err
    assert seat(lab) == before


def test_the_only_control_server_keeps_k3s_unless_its_loss_is_allowed(lab: Lab) -> None:
    lab.up(PROGRAM)
    before = seat(lab)
    one = f"{before['server_id']}/{before['installation']}"

    def refused(*command: str, **more: str) -> None:
        done = lab.run(*command, **more)
        assert done.status != 0, done.out
        assert f'["{one}"]' in done.out + done.err

    for command in (["preview"], ["up", "--yes"]):  # without a preview, as from the automation API
        refused(*command, PODS="10.245.0.0/16")
        refused(*command, *replaced(SEAT))
    refused("preview", *replaced(TOKEN))  # it is another one before anybody is asked
    for command, more in ((["up", "--yes", *replaced(SUBNET)], {}), (["preview"], {"RANGE": "10.0.1.0/24"})):
        done = lab.run(*command, **more, ALLOW=json.dumps([one]))
        assert done.status != 0
        assert "the subnet" in done.out + done.err
    assert seat(lab) == before
    lab.up(PODS="10.245.0.0/16", ALLOW=json.dumps([one]))
    after = seat(lab)
    assert after["cluster_cidr"] == "10.245.0.0/16"
    # the permission is used up; one to delete the server goes further
    one = f"{before['server_id']}/{after['installation']}"
    refused("preview", ALLOW=json.dumps([f"{before['server_id']}/{before['installation']}"]))
    allowed = {"ALLOW": json.dumps([before["server_id"]])}
    lab.ask(["up", "--yes", *replaced(TOKEN)], **allowed)
    assert seat(lab)["token"] != before["token"]
    assert lab.run("preview", "--expect-no-changes", **allowed).status == 0
