import signal
from typing import Any

import pytest
from emulated_cloud import OTHER_TOKEN, TOKEN
from process_world import LEASE, World

from ccm.controllers.names import SHUTDOWN_TAINT, UNINITIALIZED_TAINT

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


def taints(node: dict[str, Any]) -> set[str]:
    return {taint["key"] for taint in node["spec"].get("taints", [])}


def condition(node: dict[str, Any], kind: str = "NetworkUnavailable") -> tuple[str, str] | None:
    found = {one["type"]: (one["status"], one.get("reason", "")) for one in node["status"]["conditions"]}
    return found.get(kind)


def initialized(node: dict[str, Any]) -> bool:
    return UNINITIALIZED_TAINT not in taints(node) and condition(node) == ("False", "RouteCreated")


@pytest.mark.smoke
async def test_a_node_comes_lives_and_goes(world: World) -> None:
    ccm = await world.start("--refresh-node-labels")
    server = await world.machine("alpha", 11, labels={"team": "blue", "secret": "x"})
    await world.machine("beta", 12)

    node = await world.node("alpha", initialized)
    assert node["spec"]["providerID"] == f"hcloud://{server['id']}"
    assert [(one["type"], one["address"]) for one in node["status"]["addresses"]] == [
        ("InternalIP", "10.0.0.11"),
        ("Hostname", "alpha"),
        ("ExternalIP", server["public_net"]["ipv4"]["ip"]),
    ]
    labels = node["metadata"]["labels"]
    assert labels["node.kubernetes.io/instance-type"] == labels["beta.kubernetes.io/instance-type"] == "cpx22"
    assert labels["topology.kubernetes.io/region"] == "fsn1"
    assert labels["topology.kubernetes.io/zone"] == "fsn1-dc14"
    assert labels["instance.hetzner.cloud/provided-by"] == "cloud"
    assert labels["team"] == "blue"
    assert "secret" not in labels
    beta = await world.node("beta", initialized)
    expected = {node["spec"]["podCIDR"]: "10.0.0.11", beta["spec"]["podCIDR"]: "10.0.0.12"}
    assert await world.routes() == expected
    events = await world.eventually(lambda: world.events("alpha"), lambda e: "Synced" in e)
    assert events["Synced"] == "Node synced successfully"

    # a resize
    await world.sky.call("POST", f"/servers/{server['id']}/actions/poweroff")
    body = {"server_type": "cpx32", "upgrade_disk": False}
    await world.sky.call("POST", f"/servers/{server['id']}/actions/change_type", body)
    await world.node(
        "alpha", lambda n: n["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "cpx32"
    )

    # it is off, and then gone
    await world.sky.call("POST", f"/servers/{server['id']}/actions/poweroff")
    await world.not_ready("alpha")
    await world.node("alpha", lambda n: SHUTDOWN_TAINT in taints(n))
    await world.sky.call("DELETE", f"/servers/{server['id']}")
    nodes = await world.eventually(
        lambda: world.read("/api/v1/nodes"), lambda found: len(found["items"]) == 1
    )
    assert [item["metadata"]["name"] for item in nodes["items"]] == ["beta"]
    assert "DeletingNode" in await world.eventually(
        lambda: world.events("alpha"), lambda e: "DeletingNode" in e
    )
    await world.eventually(world.routes, lambda found: list(found.values()) == ["10.0.0.12"])
    assert await ccm.stop() == 0
    assert '"level":"error"' not in ccm.text()


async def test_probes_metrics_and_who_may_read_them(world: World) -> None:
    ccm = await world.start("--logging-format=json")
    await world.ready(ccm)
    for path in ("/healthz", "/livez", "/readyz"):
        assert await ccm.get(path) == (200, "ok")
    status, text = await ccm.get("/metrics")
    assert status == 403
    assert "system:anonymous" in text
    # its view of the cluster's client authorities is read in the background
    await world.eventually(lambda: ccm.get("/metrics", as_admin=True), lambda a: a[0] == 200)
    _, text = await ccm.get("/metrics", as_admin=True)
    for name in (
        'running_managed_controllers{manager="cloud-controller-manager",name="route"} 1.0',
        'leader_election_master_status{name="cloud-controller-manager"} 1.0',
        'ccm_hetzner_api_requests_total{code="ok",operation="GET /servers"}',
        "ccm_hetzner_api_quota_remaining",
        'cloud_controller_manager_operations_total{op="hcloud/ListRoutes"}',
        "cloud_controller_manager_server_cache_requests_total{",
        'hcloud_api_requests_total{api_endpoint="/servers",code="200",method="get"}',
        "route_controller_route_sync_total{",
        'workqueue_depth{name="Nodes"}',
    ):
        assert name in text
    status, text = await ccm.get("/configz", as_admin=True)
    assert (status, '"ClusterCIDR": "10.244.0.0/16"' in text) == (200, True)
    assert '"HCLOUD_TOKEN": "[secret]"' in text
    assert TOKEN not in ccm.text()
    assert await ccm.stop() == 0


async def test_a_token_follows_its_file_and_a_foreign_one_does_no_harm(world: World) -> None:
    ccm = await world.start()
    await world.ready(ccm)
    before = await world.routes()
    renewed = "n" * 64
    await world.sky.admin("PUT", "/tokens", {"token": renewed, "project": "default"})
    world.token_file.write_text(renewed, encoding="ascii")
    await world.machine("gamma", 13)
    await world.node("gamma", initialized)
    routes = await world.routes()
    assert len(routes) == len(before) + 1

    world.token_file.write_text(OTHER_TOKEN, encoding="ascii")
    await world.not_ready("gamma")
    look = lambda: ccm.get("/readyz")  # noqa: E731
    _, text = await world.eventually(look, lambda a: a[0] == 500)
    assert "[-]cloud-hcloud failed: reason withheld" in text
    assert "The token probably belongs to another project" in ccm.log.read_text(encoding="utf-8")
    events = await world.eventually(lambda: world.events("gamma"), lambda e: "WrongProject" in e)
    assert "another project" in events["WrongProject"]
    assert await world.read("/api/v1/nodes/gamma")

    world.token_file.write_text(renewed, encoding="ascii")
    await world.eventually(look, lambda a: a[0] == 200)
    assert await world.routes() == routes
    assert await world.read("/api/v1/nodes/gamma"), "its server was there all the time"
    assert await ccm.stop() == 0
    world.token_file.write_text(TOKEN, encoding="ascii")


async def test_the_lease_is_given_back_and_the_next_one_goes_on(world: World) -> None:
    first = await world.start()
    await world.ready(first)
    holder = (await world.read(LEASE))["spec"]["holderIdentity"]
    second = await world.start()
    await world.eventually(lambda: second.get("/readyz"), lambda a: a[0] == 200)
    assert "node-route" not in (await second.get("/readyz?verbose"))[1], "a follower is ready, and idle"
    assert await first.stop() == 0
    assert '"lease_released"' in first.text()
    await world.ready(second)
    lease = await world.read(LEASE)
    assert lease["spec"]["holderIdentity"] not in ("", holder)

    # killed, it can give nothing back: the third waits for the lease to run out
    third = await world.start()
    await second.stop(signal.SIGKILL)
    await world.ready(third)

    # somebody takes the lease: the process ends at once, and with an error
    spec = {"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 1}}
    await world.kube("PATCH", LEASE, spec, "application/merge-patch+json")
    assert await third.ended() == 1
    assert "leader_election_lost" in third.text()
    assert "Traceback" not in third.text()


async def test_killed_between_a_route_and_its_answer_nothing_is_doubled(world: World) -> None:
    await world.sky.fault(method="POST", path="/networks/*/actions/add_route", hold=1.5, times=1)
    ccm = await world.start()
    await world.ready(ccm)
    await world.machine("delta", 14)
    before = await world.routes()
    await world.eventually(world.routes, lambda found: len(found) == len(before) + 1)
    await world.kill(ccm)
    await world.sky.heal()
    ccm = await world.start()
    node = await world.node("delta", initialized)
    routes = await world.routes()
    assert routes[node["spec"]["podCIDR"]] == "10.0.0.14"
    assert len(routes) == len(before) + 1
    assert await ccm.stop() == 0
