"""Servers and all around them change while the cloud fails or the engine is killed: the next run mends it.

On machines, with what runs on them, `tests/e2e/test_cluster_faults.py` does the same.
"""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.pulumi_cloud import EmulatedCloud, lab_at
from tests.pulumi_lab import Lab

pytestmark = [pytest.mark.nightly, pytest.mark.slow]

PROGRAM = """
import dataclasses, json
from ccm_pulumi.components import HetznerNetwork, HetznerServers, settings
controls, workers = json.loads(os.environ["COUNTS"])
wanted = settings(ssh_allowed_cidrs="any", worker_count=workers)
# these servers are only records
wanted = dataclasses.replace(wanted, kubeconfig_path="a kubeconfig", control_count=controls)
HetznerServers("c", wanted, HetznerNetwork("c", wanted))
"""
CHANGES = {
    # how many control servers and workers, and after how many writes it goes wrong, each time
    "first up": (1, 2, (0, 4)),
    "grow": (3, 3, (1,)),
    "shrink": (1, 2, (1,)),
    "destroy": (0, 0, (3,)),
}
FAULTS: dict[str, dict[str, Any]] = {
    "429": {"code": "rate_limit_exceeded", "times": 3},
    "503": {"code": "unavailable"},
    "500 after the effect": {"code": "server_error", "after": True, "times": 1},
    "a lost answer": {"drop": "after", "times": 1},
    "SIGKILL": {},
}
KINDS = ("servers", "networks", "ssh_keys", "placement_groups", "firewalls", "primary_ips")


def writes(cloud: EmulatedCloud) -> int:
    operations = cloud.admin("GET", "/requests/counts")["operations"]
    return sum(number for name, number in operations.items() if not name.startswith("GET "))


def strike(lab: Lab, cloud: EmulatedCloud, fault: str, after: int, *words: str, counts: str) -> None:
    """Run a command, and let it go wrong after so many writes."""
    if fault == "SIGKILL":
        begun = writes(cloud)
        with lab.start(*words, COUNTS=counts) as process:
            while process.poll() is None and writes(cloud) <= begun + after:
                time.sleep(0.01)
            process.kill()
            process.communicate(timeout=60)
        return
    cloud.admin("POST", "/faults", {"method": "[!G]*", "skip": after, **FAULTS[fault]})
    done = lab.run(*words, COUNTS=counts)
    (rule,) = cloud.admin("GET", "/faults")["faults"]
    cloud.admin("DELETE", "/faults")
    assert rule["hits"] or done.status == 0, done.out
    assert "Traceback" not in done.out


def expected(controls: int, workers: int) -> list[str]:
    roles = ["control", "control-2", "control-3"][:controls] + [f"worker-{n}" for n in range(1, workers + 1)]
    return sorted(f"ccm-from-scratch-{role}" for role in roles)


def in_cloud(cloud: EmulatedCloud) -> list[int]:
    """Ids of all that does not go with a server."""
    lists = [cloud.get(f"/{kind}", per_page=50)[kind] for kind in KINDS]
    return sorted(item["id"] for items in lists for item in items if not item.get("assignee_id"))


def in_state(lab: Lab) -> list[int]:
    """Ids of all that has one in the cloud of its own."""
    resources = lab.state().get("resources") or []
    ids = [item["id"] for item in resources if item["type"].startswith("hcloud:") and item["custom"]]
    return sorted(int(one) for one in ids if one.isdigit())


@pytest.mark.parametrize("fault", FAULTS)
def test_the_next_run_ends_where_it_should(tmp_path: Path, cloud: EmulatedCloud, fault: str) -> None:
    lab = lab_at(tmp_path, cloud, refresh=True)
    lab.program(PROGRAM)
    for change, (controls, workers, moments) in CHANGES.items():
        words, counts = (("destroy" if change == "destroy" else "up", "--yes"), f"[{controls}, {workers}]")
        for after in moments:
            strike(lab, cloud, fault, after, *words, counts=counts)
            if fault == "SIGKILL":
                lab.heal()
        done = lab.run(*words, COUNTS=counts)
        assert done.status == 0, (change, done.out)
        assert cloud.names("servers") == expected(controls, workers), change
        servers = cloud.get("/servers", per_page=50)["servers"]
        assert all(len(server["private_net"]) == 1 for server in servers)
        assert in_cloud(cloud) == in_state(lab), change
    assert not in_cloud(cloud)
