import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from ccm_pulumi.config.labels import cluster_labels
from ccm_pulumi.lib.errors import InfraError
from ccm_pulumi.preflight.adoption import Adoption, of_urn
from sandbox.pulumi_cli.states import States
from tests.pulumi_cloud import EmulatedCloud, lab_at, serve
from tests.pulumi_lab import Lab

SERVER, KEY = "hcloud:index/server:Server", "hcloud:index/sshKey:SshKey"
DYNAMIC = "pulumi-python:dynamic/ccm-from-scratch:"
OURS = cluster_labels("c", "dev", {})
PAIR = {(f"{DYNAMIC}KeyPair", "key"): {"public_key": "ssh-ed25519 A c"}}
PROGRAM = """
import dataclasses
from ccm_pulumi.preflight.adoption import Adoption, importing, read_state
from ccm_pulumi.lib.cloud_api import cloud_of, fetcher
from ccm_pulumi.components import settings
from ccm_pulumi.lib.errors import InfraError
from ccm_pulumi.servers.servers import Servers
from ccm_pulumi.servers.keys import KeyPair
from ccm_pulumi.config.labels import cluster_labels
from sandbox.pulumi_cli.states import States
from ccm_pulumi.servers.network import Network

private = {"private_nodes": True, "api_endpoint": "load-balancer"} if os.environ.get("PRIVATE") else {}
wanted = settings(ssh_allowed_cidrs="any", worker_count=int(os.environ.get("WORKERS", "1")), **private)
wanted = dataclasses.replace(wanted, kubeconfig_path="a kubeconfig")  # these servers are only records
labels = cluster_labels(wanted.cluster_name, "dev", {})
adoption = Adoption(labels, fetcher(cloud_of({})), read_state())
pulumi.runtime.register_stack_transformation(importing(adoption.import_id, pulumi.log.info))
try:
    network = Network("network", wanted, labels)
    Servers("servers", wanted, labels, network=network, key=KeyPair("key", comment="c"))
except InfraError as error:
    raise pulumi.RunError(str(error)) from None
"""


class Cloud:
    """Answers lists, and counts the questions."""

    def __init__(self, **objects: list[dict[str, Any]]) -> None:
        self.objects, self.asked = objects, 0

    def __call__(self, path: str) -> dict[str, Any]:
        self.asked += 1
        collection = path.lstrip("/").partition("?")[0]
        return {collection: self.objects.get(collection, []), "meta": {"pagination": {"next_page": None}}}


def cloud(public_key: str = "ssh-ed25519 A c") -> Cloud:
    return Cloud(
        servers=[{"id": 7, "name": "c-control", "labels": OURS}],
        ssh_keys=[{"id": 3, "name": "k", "labels": OURS, "public_key": public_key}],
    )


def test_what_the_state_has_costs_no_question() -> None:
    asked = cloud()
    subnet = "hcloud:index/networkSubnet:NetworkSubnet", "n"
    adoption = Adoption(OURS, asked, {**PAIR, (SERVER, "control"): {}, subnet: {}})
    assert adoption.import_id(SERVER, "control", {"name": "c-control"}) is None
    assert adoption.import_id(*subnet, {"ip_range": "10.0.0.0/24"}) is None
    assert asked.asked == 0
    assert of_urn(f"urn:pulumi:s::p::a:b:C${SERVER}::x") == (SERVER, "x")


def test_only_what_is_ours_for_sure_is_imported() -> None:
    assert Adoption(OURS, cloud(), PAIR).import_id(SERVER, "control", {"name": "c-control"}) == "7"
    assert Adoption(OURS, cloud(), PAIR).import_id(SERVER, "control", {"name": "another"}) is None
    with pytest.raises(InfraError, match=r"c-control \(7\).* SSH key"):
        Adoption(OURS, cloud("ssh-ed25519 B c"), PAIR).import_id(SERVER, "control", {"name": "c-control"})
    with pytest.raises(InfraError, match="SSH key"):
        Adoption(OURS, cloud(), {}).import_id(SERVER, "control", {"name": "c-control"})
    # its k3s would be installed again, and perhaps begin another cluster
    installed = {**PAIR, (f"{DYNAMIC}K3sServer", "control"): {}}
    with pytest.raises(InfraError, match="another server with this name"):
        Adoption(OURS, cloud(), installed).import_id(SERVER, "control", {"name": "c-control"})


def project(folder: Path, there: EmulatedCloud) -> Lab:
    folder.mkdir()
    lab = lab_at(folder, there)
    lab.program(PROGRAM)
    return lab


def ids(there: EmulatedCloud) -> dict[str, list[int]]:
    kinds = ("servers", "networks", "firewalls", "placement_groups", "ssh_keys")
    return {kind: sorted(item["id"] for item in there.get(f"/{kind}")[kind]) for kind in kinds}


@pytest.mark.slow
def test_a_state_that_is_older_than_the_cloud_is_completed_and_no_other_one(tmp_path: Path) -> None:
    for there in serve("instant"):
        lab = project(tmp_path / "mine", there)
        lab.up(WORKERS="0")
        older = lab.ask(["stack", "export"])
        lab.up(WORKERS="2")
        before = ids(there)
        lab.ask(["stack", "import"], older)
        assert "2 imported" in lab.up(WORKERS="2")
        assert ids(there) == before
        assert "imported" not in lab.up(WORKERS="2")
        # a colleague's stack of the same name
        other = project(tmp_path / "theirs", there)
        for _ in range(2):
            assert "the network ccm-from-scratch (" in other.up(WORKERS="2", status=1)
            assert ids(there) == before
        # who follows the advice has the other's state
        other.ask(["stack", "import"], lab.ask(["stack", "export"]))
        assert "unchanged" in other.up(WORKERS="2")
        assert ids(there) == before


@pytest.mark.slow
def test_a_route_that_the_state_lacks_is_imported_and_then_corrected(tmp_path: Path) -> None:
    for there in serve("instant"):
        lab = project(tmp_path / "mine", there)
        lab.up(PRIVATE="yes")
        state = json.loads(lab.ask(["stack", "export"]))
        (route,) = [one for one in state["deployment"]["resources"] if "networkRoute" in one["type"]]
        state["deployment"]["resources"].remove(route)
        for one in state["deployment"]["resources"]:
            for urns in (one.get("dependencies", []), *one.get("propertyDependencies", {}).values()):
                urns[:] = [urn for urn in urns if urn != route["urn"]]
        network, actual = route["outputs"]["networkId"], there.get("/networks")["networks"][0]["routes"]
        for action, gateway in (("delete_route", actual[0]["gateway"]), ("add_route", "10.0.0.250")):
            body = {"destination": "0.0.0.0/0", "gateway": gateway}
            there.send("POST", f"/networks/{network:.0f}/actions/{action}", body)
        lab.ask(["stack", "import"], json.dumps(state))
        assert "1 imported" in lab.up(PRIVATE="yes")
        lab.up(PRIVATE="yes")
        assert there.get("/networks")["networks"][0]["routes"] == actual
        assert "unchanged" in lab.up(PRIVATE="yes")


@pytest.mark.slow
def test_a_run_that_was_killed_while_servers_were_created_is_repeated(tmp_path: Path) -> None:
    for there in serve("realistic"):
        lab = project(tmp_path / "mine", there)
        process, deadline = lab.start("up", "--yes"), time.monotonic() + 400
        while not there.names("servers"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        (server,) = there.get("/servers")["servers"][:1]
        States(tmp_path / "mine/state", lab.name).repair()  # what Pulumi was just writing
        assert lab.run("cancel", "--yes").status == 0
        lab.up()
        assert server["id"] in ids(there)["servers"]
        assert lab.run("destroy", "--yes").status == 0
        assert not any(ids(there).values())
