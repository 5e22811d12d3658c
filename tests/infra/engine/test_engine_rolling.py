"""Changes that roll server by server in the engine: their order, a failure in between, the run after it."""

import json
from pathlib import Path

import pytest

from tests.infra.engine.thing_lab import ThingLab
from tests.pulumi_cloud import EmulatedCloud, lab_at

pytestmark = pytest.mark.slow

SERVER = "hcloud:index/server:Server"
ROLES = ("a-1", "a-2", "a-3")
# Servers are there with their control server; what waits for a machine is a resource that looks at nothing.
GATES = """
import os
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult
from things import note

class GateProvider(ResourceProvider):
    def diff(self, id, olds, news):
        return DiffResult(changes=olds.get("member") != news.get("member"))
    def create(self, props):
        note("create", props["role"])
        return CreateResult(props["role"], props)
    def update(self, id, olds, news):
        note("update", news["role"])
        if news["role"] == os.environ.get("FAILS"):
            raise RuntimeError("it does not come back")
        return UpdateResult(news)

class Gate(Resource):
    def __init__(self, name, role, member, opts=None):
        super().__init__(GateProvider(), name, {"role": role, "member": member}, opts)
"""
PROGRAM = """
import json
import pulumi_hcloud as hcloud
from gates import Gate
from ccm_pulumi.servers.rollout import Rollout, pool_rollout_order

roles = ["a-1", "a-2", "a-3"]
order = Rollout(pool_rollout_order(roles, json.loads(os.environ["EXISTING"]), 1, ["control"]))
order.done_when("control", Thing("control"))
servers = {
    role: hcloud.Server(
        role, name=role, server_type="cpx22", image=os.environ["IMAGE"], location="fsn1",
        opts=O.merge(O(delete_before_replace=True), order.options(role)),
    )
    for role in roles
}
for role, server in servers.items():
    order.done_when(role, Gate(f"gate-{role}", role, server.id))
"""


@pytest.fixture
def rolling(tmp_path: Path, cloud: EmulatedCloud):
    """Runs the program with an image; what the gates saw, in their order."""
    lab = lab_at(tmp_path, cloud, ThingLab)
    lab.write("gates.py", GATES)
    lab.program(PROGRAM)

    def run(image, *, command="up", **more):
        wanted = {"IMAGE": image, "EXISTING": json.dumps(cloud.names("servers"))}
        done = lab.run(*([command, "--yes"] if command != "preview" else [command]), **wanted, **more)
        return done, [line for line in lab.journal() if line != "create control"]

    run.lab = lab
    return run


def images(cloud):
    return {item["name"]: item["image"]["name"] for item in cloud.get("/servers", per_page=50)["servers"]}


def test_one_after_the_other_and_nothing_the_second_time(rolling, cloud: EmulatedCloud) -> None:
    first, _ = rolling("ubuntu-24.04")
    assert first.status == 0, first.err
    unchanged, nothing = rolling("ubuntu-24.04")
    assert "unchanged" in unchanged.out
    assert not any(f" {word}" in unchanged.out for word in ("created", "updated", "replaced"))
    assert nothing == []
    planned, nothing = rolling("debian-12", command="preview")
    assert planned.status == 0, planned.out + planned.err
    # the preview is the plan: a server goes after the one before it is back
    steps = [
        "Server a-1 replace",
        "gate-a-1 update",
        "Server a-2 delete",
        "gate-a-2 update",
        "Server a-3 delete",
    ]
    places = [planned.out.find(step) for step in steps]
    assert -1 not in places
    assert places == sorted(places)
    assert nothing == []
    done, gates = rolling("debian-12")
    assert done.status == 0, done.out + done.err
    assert gates == ["update a-1", "update a-2", "update a-3"]
    assert images(cloud) == dict.fromkeys(ROLES, "debian-12")


def test_what_takes_turns_goes_side_by_side(rolling, cloud: EmulatedCloud) -> None:
    rolling("ubuntu-24.04")
    rolling("debian-12")
    servers = [item for item in rolling.lab.state()["resources"] if item["type"] == SERVER]
    assert len(servers) == len(ROLES)
    # what is in the state is what a destroy goes by
    assert not any(item.get("dependencies") for item in servers)
    assert not any(item.get("propertyDependencies", {}).get("name") for item in servers)
    done, _ = rolling("debian-12", command="destroy")
    assert done.status == 0, done.out + done.err
    assert cloud.names("servers") == []


def test_a_server_that_does_not_come_back_stops_the_others_and_the_next_run_goes_on(
    rolling, cloud: EmulatedCloud
) -> None:
    rolling("ubuntu-24.04")
    failed, gates = rolling("debian-12", FAILS="a-2")
    assert failed.status != 0
    assert gates == ["update a-1", "update a-2"]
    assert images(cloud) == {"a-1": "debian-12", "a-2": "debian-12", "a-3": "ubuntu-24.04"}
    done, gates = rolling("debian-12")
    assert done.status == 0, done.out + done.err
    assert gates == ["update a-2", "update a-3"]
    assert images(cloud) == dict.fromkeys(ROLES, "debian-12")
