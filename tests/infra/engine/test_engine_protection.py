from pathlib import Path
from typing import Any

import pytest

from tests.pulumi_cloud import EmulatedCloud, lab_at
from tests.pulumi_lab import Lab, Result

pytestmark = pytest.mark.slow

PROGRAM = """
import dataclasses
from ccm_pulumi.assembly import Place
from ccm_pulumi.components import HetznerNetwork, HetznerServers, settings
from ccm_pulumi.protection import guard_protected_resources
E = os.environ.get
wanted = settings(ssh_allowed_cidrs="any", worker_count=1, image=E("IMAGE", "ubuntu-24.04"),
    network_cidr="10.0.0.0/8", cluster_cidr="10.64.0.0/16", protect=E("PROTECT") == "yes",
    allow_deletion_of=E("ALLOW", "").split())
wanted = dataclasses.replace(wanted, kubeconfig_path="a kubeconfig")  # these servers are only records
network = HetznerNetwork("n", wanted)
servers = HetznerServers("s", wanted, network)
guard_protected_resources(Place(), wanted, network, servers)
"""


@pytest.fixture
def protected(tmp_path: Path, cloud: EmulatedCloud) -> Lab:
    lab = lab_at(tmp_path, cloud)
    lab.up(PROGRAM, PROTECT="yes")
    return lab


def there(cloud: EmulatedCloud) -> dict[str, Any]:
    """All objects, with what they are protected against."""
    kinds = ("servers", "networks", "firewalls", "placement_groups", "ssh_keys")
    lists = {kind: cloud.get(f"/{kind}", per_page=50)[kind] for kind in kinds}
    return {kind: {item["name"]: item.get("protection") for item in items} for kind, items in lists.items()}


def refused(result: Result, *names: str) -> None:
    said = result.out + result.err
    assert result.status != 0, said
    for name in names:
        assert f"{name} (" in said, said
    assert "pulumi config set ccm-from-scratch:protect false." in said


@pytest.mark.smoke
def test_a_destroy_deletes_nothing_and_says_what_to_do(protected: Lab, cloud: EmulatedCloud) -> None:
    before = there(cloud)
    both = {"delete": True, "rebuild": True}
    neither = {"delete": False, "rebuild": False}
    assert before["servers"] == {"ccm-from-scratch-control": both, "ccm-from-scratch-worker-1": neither}
    assert before["networks"] == {"ccm-from-scratch": {"delete": True}}
    assert "unchanged" in protected.up(PROTECT="yes")

    refused(protected.run("destroy", "--yes"), "network ccm-from-scratch", "server ccm-from-scratch-control")
    assert there(cloud) == before

    protected.up(PROTECT="no")
    assert there(cloud)["servers"] == {
        "ccm-from-scratch-control": neither,
        "ccm-from-scratch-worker-1": neither,
    }
    assert there(cloud)["networks"] == {"ccm-from-scratch": {"delete": False}}
    protected.ask(["destroy", "--yes"])
    assert not any(there(cloud).values())


def test_nothing_protected_is_replaced(protected: Lab, cloud: EmulatedCloud) -> None:
    ids = {name: item["id"] for name, item in protected.resources().items() if "control" in name}
    # that the only control server goes is allowed, and it is protected all the same
    (control,) = [item for item in cloud.get("/servers")["servers"] if item["name"].endswith("control")]
    change = {"IMAGE": "debian-12", "ALLOW": str(control["id"])}
    for protect in ("yes", "no"):  # "no" must be applied before the run that replaces the server
        refused(protected.run("up", "--yes", PROTECT=protect, **change), "server ccm-from-scratch-control")
        assert there(cloud)["servers"]["ccm-from-scratch-control"]["delete"]
        assert {name: item["id"] for name, item in protected.resources().items() if name in ids} == ids
        protected.heal()  # as './dev up' does it
    protected.up(PROTECT="no")
    protected.up(PROTECT="no", **change)


def test_objects_deleted_by_hand_do_not_block_a_run(protected: Lab, cloud: EmulatedCloud) -> None:
    for server in cloud.get("/servers")["servers"]:
        path = f"/servers/{server['id']}"
        cloud.send("POST", f"{path}/actions/change_protection", {"delete": False, "rebuild": False})
        cloud.send("DELETE", path)
    protected.run("refresh", "--yes", PROTECT="yes")
    protected.up(PROTECT="yes")
    assert there(cloud)["servers"]["ccm-from-scratch-control"]["delete"]
