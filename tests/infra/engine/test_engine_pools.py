import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.pulumi_cloud import EmulatedCloud, lab_at
from tests.pulumi_lab import Lab

pytestmark = pytest.mark.slow

PROGRAM = """
import dataclasses, json
from ccm_pulumi.components import HetznerNetwork, HetznerServers, settings
wanted = settings(ssh_allowed_cidrs="any", **json.loads(os.environ["WANTED"]))
wanted = dataclasses.replace(wanted, kubeconfig_path="a kubeconfig")  # these servers are only records
HetznerServers("c", wanted, HetznerNetwork("c", wanted))
"""


@pytest.fixture
def pooled(tmp_path: Path, cloud: EmulatedCloud) -> Lab:
    lab = lab_at(tmp_path, cloud)
    lab.program(PROGRAM)
    return lab


def pool(name: str, count: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "count": count, **more}


def of(*pools: dict[str, Any], **more: Any) -> str:
    return json.dumps({"pools": pools, **more})


def ids(cloud: EmulatedCloud) -> dict[str, int]:
    servers = cloud.get("/servers", per_page=50)["servers"]
    return {server["name"].removeprefix("ccm-from-scratch-"): server["id"] for server in servers}


def outside_of_groups(cloud: EmulatedCloud) -> None:
    for server in ids(cloud).values():
        cloud.send("POST", f"/servers/{server}/actions/remove_from_placement_group")


@pytest.mark.parametrize("wanted", ['{"worker_count": 1}', of(pool("a", 1))])
def test_a_lost_placement_group_replaces_no_server(pooled: Lab, cloud: EmulatedCloud, wanted: str) -> None:
    pooled.up(WANTED=wanted)
    outside_of_groups(cloud)
    assert pooled.run("refresh", "--yes", WANTED=wanted).status == 0
    previewed = pooled.run("preview", WANTED=wanted)
    assert previewed.status == 0, previewed.out + previewed.err
    planned = re.findall(r"^ *(\S+) +hcloud:index:Server (\S+)", previewed.out, re.MULTILINE)
    assert not [name for sign, name in planned if sign not in "~="], previewed.out


def test_rules_of_a_pool_come_and_go_with_its_servers_in_place(pooled: Lab, cloud: EmulatedCloud) -> None:
    def opened() -> dict[str, set[int]]:
        return {
            firewall["name"].removeprefix("ccm-from-scratch"): {
                target["server"]["id"] for target in firewall["applied_to"]
            }
            for firewall in cloud.get("/firewalls")["firewalls"]
        }

    def with_port(*ports: int) -> str:
        rules = [{"protocol": "tcp", "port": port, "sources": "any"} for port in ports]
        return of(pool("a", 2, firewall=rules), pool("b", 1))

    pooled.up(WANTED=with_port())
    before = ids(cloud)
    assert opened() == {"": set(before.values())}
    for ports in ((443,), (80, 443)):
        pooled.up(WANTED=with_port(*ports))
        assert opened() == {"": set(before.values()), "-a": {before["a-1"], before["a-2"]}}
        (of_pool,) = cloud.get("/firewalls", name="ccm-from-scratch-a")["firewalls"]
        assert [rule["port"] for rule in of_pool["rules"]] == [str(port) for port in ports]
    pooled.up(WANTED=with_port())
    assert opened() == {"": set(before.values())}
    assert ids(cloud) == before
