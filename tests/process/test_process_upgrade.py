import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from process_world import LEASE, World, open_world
from version_before import ENVIRONMENT, EXAMPLES, NODES, RECORDED, SERVICES, cloud, renamed, write_state

from hetzner_emulator.config import CloudConfig
from sandbox.kubernetes.controlplane import ControlPlane
from sandbox.kubernetes.toolchain import Toolchain

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

BEFORE = json.loads(RECORDED.read_text(encoding="utf-8"))
GIVEN_ANEW = ("uid", "creationTimestamp", "generation")
PLACES = {"Node": NODES, "Service": SERVICES, "Lease": LEASE.rpartition("/")[0]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(kubernetes: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    directory = tmp_path_factory.mktemp("before")

    def before(cluster: ControlPlane) -> CloudConfig:
        uids = {item["metadata"]["uid"]: put(cluster, item) for item in BEFORE["objects"]}
        write_state(directory / "cloud.sqlite", renamed(BEFORE["cloud"], uids))
        return cloud(directory / "cloud.sqlite")

    async with open_world(kubernetes, directory, before=before) as world:
        yield world


def put(cluster: ControlPlane, item: dict[str, Any]) -> str:
    """Create an object as it was; returns the UID that it has now."""
    place = PLACES[item["kind"]]
    metadata = {key: value for key, value in item["metadata"].items() if key not in GIVEN_ANEW}
    made = cluster.api().request("POST", place, {"metadata": metadata, "spec": item["spec"]})
    if item["status"]:
        path = f"{place}/{metadata['name']}/status"
        cluster.api().request("PATCH", path, {"status": item["status"]}, "application/merge-patch+json")
    return made["metadata"]["uid"]


def essence(item: dict[str, Any]) -> dict[str, Any]:
    """What a CCM says of an object."""
    metadata, spec, status = item["metadata"], item["spec"], item["status"]
    return {
        "name": metadata["name"],
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "finalizers": metadata.get("finalizers"),
        "spec": {key: spec.get(key) for key in ("providerID", "podCIDR", "ports", "clusterIP")},
        "balancer": status.get("loadBalancer"),
        "addresses": status.get("addresses"),
    }


async def cluster_now(world: World) -> list[dict[str, Any]]:
    nodes, services = await world.read(NODES), await world.read(SERVICES)
    ours = [service for service in services["items"] if service["metadata"]["name"] in EXAMPLES]
    return [essence(one) for one in (*nodes["items"], *ours)]


async def cloud_now(world: World) -> dict[str, Any]:
    kinds = ("load_balancers", "networks", "servers", "certificates")
    return {kind: (await world.sky.call("GET", f"/{kind}"))[kind] for kind in kinds}


async def changes(world: World) -> list[tuple[str, str]]:
    requests = (await world.sky.admin("GET", "/requests"))["requests"]
    return [(request["method"], request["path"]) for request in requests if request["method"] != "GET"]


async def test_the_cluster_is_as_the_version_before_left_it(world: World) -> None:
    """Or the other tests would prove nothing."""
    recorded = [essence(item) for item in BEFORE["objects"] if item["kind"] != "Lease"]
    assert sorted(await cluster_now(world), key=str) == sorted(recorded, key=str)
    assert (await world.read(LEASE))["spec"] == BEFORE["objects"][-1]["spec"]
    assert len((await cloud_now(world))["load_balancers"]) == len(EXAMPLES)
    assert len(await world.routes()) == 2


async def test_the_lease_is_taken_over_and_nothing_that_was_there_is_changed(world: World) -> None:
    cluster, sky = await cluster_now(world), await cloud_now(world)
    lease = (await world.read(LEASE))["spec"]
    await world.sky.forget_requests()
    ccm = await world.start(environment=ENVIRONMENT)
    await world.ready(ccm)
    taken = (await world.read(LEASE))["spec"]
    assert taken["holderIdentity"] not in ("", lease["holderIdentity"])
    assert taken["leaseTransitions"] == lease["leaseTransitions"] + 1

    # What comes last is done last: then all that was there has been looked at.
    spec = {"type": "LoadBalancer", "ports": [{"name": "web", "port": 80, "targetPort": 8080}]}
    await world.kube("POST", SERVICES, {"metadata": {"name": "last"}, "spec": spec})
    last = await world.eventually(
        lambda: world.read(f"{SERVICES}/last"), lambda one: one["status"]["loadBalancer"].get("ingress")
    )
    assert await changes(world) == [("POST", "/load_balancers")]
    after = await cloud_now(world)
    own = [one for one in after["load_balancers"] if last["metadata"]["uid"] in one["labels"].values()]
    assert len(own) == 1
    after["load_balancers"].remove(own[0])
    for item in (*after["networks"], *after["servers"]):  # both name their load balancers
        item["load_balancers"] = [one for one in item["load_balancers"] if one != own[0]["id"]]
    assert after == sky
    assert await cluster_now(world) == cluster


async def test_what_the_version_before_made_can_be_deleted(world: World) -> None:
    ccm = await world.start(environment=ENVIRONMENT)
    await world.ready(ccm)
    # the test before it may have run in another process
    there = {one["metadata"]["name"] for one in (await world.read(SERVICES))["items"]}
    for name in there & {*EXAMPLES, "last"}:
        await world.kube("DELETE", f"{SERVICES}/{name}")
    await world.eventually(
        lambda: world.read(SERVICES),
        lambda found: {one["metadata"]["name"] for one in found["items"]} == {"kubernetes"},
    )
    assert (await cloud_now(world))["load_balancers"] == []
