"""Two stacks in one folder and in one project of the cloud: neither changes what is the other's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from engine_cloud import EmulatedCloud
from engine_lab import Lab

pytestmark = pytest.mark.slow

PROGRAM = """
import dataclasses
from infra.components import HetznerNetwork, HetznerServers, settings
from infra.files import PrivateFile, key_file
from infra.keys import KeyPair
E = os.environ.get
stack = pulumi.get_stack()
wanted = settings(
    ssh_allowed_cidrs="any", worker_count=int(E("WORKERS", "1")), cluster_name=E("NAME") or stack,
    network_cidr="10.0.0.0/8", cluster_cidr="10.64.0.0/16",
)
# nobody connects to servers of a cluster that is there already, and these here are records
wanted = dataclasses.replace(wanted, kubeconfig_path="a kubeconfig")
HetznerServers("s", wanted, HetznerNetwork("n", wanted))
# as the program itself does, but that its clone is the lab's folder
key = KeyPair("key", comment=stack).private_key
PrivateFile("key-file", os.path.join(os.getcwd(), key_file(stack)), key, formerly="")
"""
KINDS = ("servers", "networks", "firewalls", "placement_groups", "ssh_keys")


@pytest.fixture
def lab(tmp_path: Path, cloud: EmulatedCloud) -> Lab:
    """A project with the stacks ``one``, which is up, and ``two``, which is not."""
    lab = Lab(tmp_path, {"HCLOUD_ENDPOINT": cloud.endpoint, "PYTHONPATH": str(Path(__file__).parents[3])})
    polling = "config:\n  hcloud:pollFunction: constant\n  hcloud:pollInterval: 50ms\n"
    lab.write("Pulumi.yaml", f"name: lab\nruntime: python\n{polling}")
    lab.program(PROGRAM)
    for stack in ("one", "two"):
        lab.run("stack", "init", stack)
    done = lab.run("up", "--yes", "--stack", "one")
    assert done.status == 0, done.out + done.err
    return lab


def there(cloud: EmulatedCloud, without: str = "") -> dict[tuple[str, str], dict[str, Any]]:
    """Everything in the project, by kind and name, but for what is called ``without-…``."""
    return {
        (kind, item["name"]): item
        for kind in KINDS
        for item in cloud.get(f"/{kind}", per_page=50)[kind]
        if not (without and re.match(rf"{without}\b", item["name"]))
    }


def test_each_has_its_own_and_takes_only_that_along(lab: Lab, cloud: EmulatedCloud) -> None:
    ones, key = there(cloud), (lab.project / ".dev-env.one.ssh").read_text()
    for workers in ("2", "1"):
        done = lab.run("up", "--yes", "--stack", "two", WORKERS=workers)
        assert done.status == 0, done.out + done.err
        assert there(cloud, without="two") == ones
    assert len(there(cloud)) == 2 * len(ones)
    assert (lab.project / ".dev-env.two.ssh").read_text() != key

    done = lab.run("destroy", "--yes", "--stack", "two")
    assert done.status == 0, done.out + done.err
    assert there(cloud) == ones
    assert (lab.project / ".dev-env.one.ssh").read_text() == key
    assert not (lab.project / ".dev-env.two.ssh").exists()


def test_one_that_takes_the_others_name_gets_nothing_and_harms_nothing(
    lab: Lab, cloud: EmulatedCloud
) -> None:
    ones = there(cloud)
    failed = lab.run("up", "--yes", "--stack", "two", NAME="one")
    assert failed.status != 0
    assert "uniqueness_error" in failed.out + failed.err
    assert there(cloud) == ones

    done = lab.run("destroy", "--yes", "--stack", "two", NAME="one")
    assert done.status == 0, done.out + done.err
    assert there(cloud) == ones
