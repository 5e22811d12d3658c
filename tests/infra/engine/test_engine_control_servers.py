import json
from pathlib import Path

import pytest

from tests.pulumi_cloud import EmulatedCloud, lab_at

pytestmark = pytest.mark.slow

ROLES = ("control", "control-2", "control-3")
# What is installed on a server is a resource that looks at nothing, and notes what would be done.
SEATS = """
import os
from pathlib import Path
from ccm_pulumi.lib.dynamic import Provider
from pulumi.dynamic import CreateResult, Resource, UpdateResult

JOURNAL = Path(os.environ["JOURNAL"])

def note(*what):
    with JOURNAL.open("a") as file:
        file.write(" ".join(what) + "\\n")

def vote(role):
    return JOURNAL.with_name(f"vote-{role}")

def leave(role):
    if vote(role).exists():
        note("leave", role)
        if role == os.environ.get("NEEDED"):
            raise RuntimeError("it is needed")
        vote(role).unlink()

class EtcdMemberGuardProvider(Provider):
    replaced_by = ("server_id",)
    def create(self, props):
        return CreateResult(props["role"], dict(props))
    def delete(self, id, props):
        leave(props["role"])

class Vote(Resource):
    def __init__(self, role, server_id, opts=None):
        super().__init__(EtcdMemberGuardProvider(), f"{role}-vote", {"role": role, "server_id": server_id},
        opts)

class SeatProvider(Provider):
    replaced_by = ("server_id",)
    def create(self, props):
        note("join", props["role"])
        vote(props["role"]).touch()
        if props["role"] == os.environ.get("STUCK"):
            raise RuntimeError("it joined, and is not ready")
        return CreateResult(props["role"], dict(props))
    def update(self, id, olds, news):
        return UpdateResult(dict(news))
    def delete(self, id, props):
        if props["several"]:
            leave(props["role"])

class Seat(Resource):
    server_id: "pulumi.Output[str]"
    def __init__(self, role, server_id, several, opts=None):
        props = {"role": role, "server_id": server_id, "several": several}
        super().__init__(SeatProvider(), role, props, opts)

class InsideProvider(Provider):
    replaced_by = ("generation",)
    def create(self, props):
        note("make", "inside")
        return CreateResult("inside", dict(props))
    def delete(self, id, props):
        note("remove", "inside")

class Inside(Resource):
    def __init__(self, name, generation, opts=None):
        super().__init__(InsideProvider(), name, {"generation": generation}, opts)
"""
PROGRAM = """
import itertools, json
import pulumi_hcloud as hcloud
from seats import Inside, Seat, Vote
from ccm_pulumi.cluster.identity import ClusterIdentity
from ccm_pulumi.servers.keys import SharedSecret
from ccm_pulumi.servers.rollout import Rollout

roles, existing = json.loads(os.environ["ROLES"]), json.loads(os.environ["EXISTING"])
order = Rollout({role: [before] for before, role in itertools.pairwise(roles) if role in existing})
token = SharedSecret("token")
servers = {
    role: hcloud.Server(
        role, name=role, server_type="cpx22", image=os.environ["IMAGE"], location="fsn1",
        opts=O.merge(O(delete_before_replace=True), order.options(role)),
    )
    for role in roles
}
seats, several = [], len(roles) > 1
for role, server in servers.items():
    gone_with = token if several else server
    last = O(deleted_with=gone_with, depends_on=seats[-1:])
    if seats:
        last = O.merge(last, O(depends_on=[Vote(role, server.id, last)]))
    seats.append(Seat(role, server.id, several, last))
    order.done_when(role, seats[-1])
identity = ClusterIdentity(
    "cluster", O(depends_on=seats), text=pulumi.Output.concat("of ", seats[0].server_id), several=several,
    begun=False, provider=None, settings={}, snapshots=None, restores=None,
)
gone_with = token if several else seats[0]
Inside("inside", identity.generation, O(deleted_with=gone_with))
pulumi.export("generation", identity.generation)
"""


@pytest.fixture
def cluster(tmp_path: Path, cloud: EmulatedCloud):
    """Runs the program with so many control servers; what was done in the cluster, in its order."""
    journal = tmp_path / "journal"
    lab = lab_at(tmp_path, cloud, JOURNAL=str(journal))
    lab.write("seats.py", SEATS)
    lab.program(PROGRAM)

    def run(count, image="ubuntu-24.04", *, command="up", fails=False, **more):
        journal.write_text("")
        there = json.dumps(cloud.names("servers"))
        wanted = {"IMAGE": image, "EXISTING": there, "ROLES": json.dumps(ROLES[:count]), **more}
        done = lab.run(*([command, "--yes"] if command != "preview" else [command]), **wanted)
        assert bool(done.status) is fails, done.out + done.err
        return done.out, journal.read_text().splitlines()

    run.lab = lab
    return run


def generation(cluster):
    return cluster.lab.outputs()["generation"]


@pytest.mark.smoke
def test_one_to_three_to_one_is_one_cluster(cluster) -> None:
    _, done = cluster(1)
    assert done == ["join control", "make inside"]
    name = generation(cluster)
    planned, _ = cluster(3, command="preview")
    assert "inside" not in planned
    _, done = cluster(3)
    assert done == ["join control-2", "join control-3"]
    out, done = cluster(3)
    assert done == []
    assert "created" not in out
    _, done = cluster(1)
    assert done == ["leave control-3", "leave control-2"]
    _, done = cluster(1)
    assert done == []
    assert generation(cluster) == name


@pytest.mark.parametrize("stuck", ROLES[1:])
def test_one_that_joined_in_a_run_that_failed_leaves_before_it_goes(
    cluster, cloud: EmulatedCloud, stuck: str
) -> None:
    cluster(1)
    cluster(3, fails=True, STUCK=stuck)
    _, done = cluster(1)
    assert done == [f"leave {role}" for role in ROLES[ROLES.index(stuck) : 0 : -1]]
    assert cloud.names("servers") == ["control"]


def test_a_server_that_joined_in_a_failed_run_leaves_before_it_is_recreated(cluster) -> None:
    cluster(3, fails=True, STUCK="control-2")
    _, done = cluster(3, "debian-12")
    assert done.index("leave control-2") < done.index("join control-2")


def test_each_leaves_before_its_server_goes_and_the_next_after_it_is_back(
    cluster, cloud: EmulatedCloud
) -> None:
    cluster(3)
    name, before = generation(cluster), cluster.lab.resources()
    planned, _ = cluster(3, "debian-12", command="preview")
    assert "inside" not in planned
    _, done = cluster(3, "debian-12")
    assert done == [f"{what} {role}" for role in ROLES for what in ("leave", "join")]
    after = cluster.lab.resources()
    assert all(after[role]["id"] for role in ROLES)
    assert {item["image"]["name"] for item in cloud.get("/servers")["servers"]} == {"debian-12"}
    assert after["inside"]["id"] == before["inside"]["id"]
    assert generation(cluster) == name
    assert cluster(3, "debian-12")[1] == []


def test_one_that_is_needed_stays_and_with_it_the_others(cluster, cloud: EmulatedCloud) -> None:
    cluster(3)
    _, done = cluster(3, "debian-12", fails=True, NEEDED="control-2")
    assert done == ["leave control", "join control", "leave control-2"]
    found = {item["name"]: item["image"]["name"] for item in cloud.get("/servers")["servers"]}
    assert found == {"control": "debian-12", "control-2": "ubuntu-24.04", "control-3": "ubuntu-24.04"}
    assert cluster(3, "debian-12")[1] == [
        "leave control-2",
        "join control-2",
        "leave control-3",
        "join control-3",
    ]


def test_the_only_one_takes_the_cluster_with_it(cluster) -> None:
    cluster(1)
    name = generation(cluster)
    _, done = cluster(1, "debian-12")
    assert done == ["join control", "make inside"], "nothing is taken out of a cluster that goes"
    assert generation(cluster) != name


def test_a_first_one_that_was_lost_is_another_one_in_the_same_cluster(cluster, cloud: EmulatedCloud) -> None:
    cluster(3)
    name = generation(cluster)
    (lost,) = [item for item in cloud.get("/servers")["servers"] if item["name"] == "control"]
    cloud.send("DELETE", f"/servers/{lost['id']}")
    cluster(3, command="refresh")
    _, done = cluster(3)
    assert done == ["leave control", "join control"]
    assert generation(cluster) == name
    _, done = cluster(1)
    assert done == ["leave control-3", "leave control-2"]
    assert generation(cluster) == name


def test_no_server_leaves_etcd_during_a_destroy(cluster, cloud: EmulatedCloud) -> None:
    cluster(3)
    _, done = cluster(3, command="destroy")
    assert done == []
    assert cloud.names("servers") == []
