import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from process_world import Ccm, World, open_world, own_rights
from test_process_nodes_and_routes import initialized, taints
from test_process_services import PLACE, SERVICES, balancers, change, create, gone, ingress, service

from ccm.controllers.names import SHUTDOWN_TAINT
from k3s_standin.api import ApiError
from sandbox.kubernetes.hollow_nodes import HollowNode
from sandbox.kubernetes.toolchain import Toolchain

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1800)]

Right = tuple[str, str, str]  # API group, resource with subresource, verb
LEASES = "leases"
MERGE = "application/merge-patch+json"
# For these Kubernetes has the roles system:auth-delegator and extension-apiserver-authentication-reader.
DELEGATED = {
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ("", "configmaps", "get"),
}
# The ClusterRole of the official chart v1.35.0 (hetznercloud/hcloud-cloud-controller-manager,
# chart/templates/clusterrole.yml), which whoever swaps the image alone goes on with.
OFFICIAL = [
    ("", "configmaps", ["get", "list", "watch"]),
    ("", "events", ["create", "patch", "update"]),
    ("", "nodes", ["*"]),
    ("", "nodes/status", ["patch"]),
    ("", "services", ["list", "watch"]),
    ("", "services/status", ["patch", "update"]),
    ("", "serviceaccounts", ["create"]),
    ("", "persistentvolumes", ["get", "list", "update", "watch"]),
    ("coordination.k8s.io", LEASES, ["create", "get", "list", "watch", "update"]),
]


def official_rights() -> list[dict[str, Any]]:
    account = {"kind": "ServiceAccount", "name": "cloud-controller-manager", "namespace": "kube-system"}
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": verbs} for group, resource, verbs in OFFICIAL
    ]
    name = "system:hcloud-cloud-controller-manager"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    group = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account | {"kind": None}},
        {"apiVersion": group, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": group,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{name}:restricted"},
            "roleRef": role,
            "subjects": [account],
        },
    ]


def granted() -> set[Right]:
    return {
        (group, resource, verb)
        for item in own_rights()
        if item["kind"] in ("Role", "ClusterRole")
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def right(entry: dict[str, Any]) -> Right:
    about = entry["objectRef"]
    resource = "/".join(part for part in (about["resource"], about.get("subresource")) if part)
    return about.get("apiGroup", ""), resource, entry["verb"]


def used(world: World) -> set[Right]:
    return {right(entry) for entry in world.audited()}


def refused(world: World) -> set[Right]:
    return {right(entry) for entry in world.audited() if entry["responseStatus"]["code"] == 403}


@asynccontextmanager
async def busy(world: World, name: str) -> AsyncIterator[None]:
    """Others write to a Node while the cloud thinks about its answers, so who acts on these is too late."""

    async def write() -> None:
        number = 0
        while True:
            number += 1
            with suppress(ApiError):
                body = {"metadata": {"annotations": {"number": str(number)}}}
                path = f"/api/v1/nodes/{name}"
                await world.kube("PATCH", path, body, MERGE)
            # less than the cloud's 0.5 s, and more than the CCM's second attempt takes on a busy machine
            await asyncio.sleep(0.3)

    for path in ("/servers", "/servers/*"):
        await world.sky.fault(method="GET", path=path, hold=0.5)
    writer = asyncio.create_task(write())
    try:
        yield
    finally:
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
        await world.sky.heal()


async def live_a_life(world: World, ccm: Ccm) -> None:
    """Everything that a CCM does in its life."""
    # a node comes, is switched off while others write to it, and goes
    server = await world.machine("alpha", 11)
    await world.node("alpha", initialized)
    await world.sky.call("POST", f"/servers/{server['id']}/actions/poweroff")
    await world.not_ready("alpha")
    async with busy(world, "alpha"):
        # until one of those writes has come between the CCM's look at the Node and its own write
        while ("", "nodes", "get") not in used(world):
            await world.kube("PATCH", "/api/v1/nodes/alpha", {"spec": {"taints": None}}, MERGE)
            await world.node("alpha", lambda node: SHUTDOWN_TAINT in taints(node))
    await world.machine("beta", 12)
    await world.node("beta", initialized)
    await world.sky.call("DELETE", f"/servers/{server['id']}")
    await world.eventually(
        lambda: world.read("/api/v1/nodes"),
        lambda found: [one["metadata"]["name"] for one in found["items"]] == ["beta"],
    )

    # one whose server is not in the network can't have its route, and gets an Event again and again
    await world.sky.add_server("gamma")
    await world.nodes.power_on(HollowNode("gamma", node_ip="10.0.0.13"))
    patched = ("", "events", "patch")
    await world.eventually(lambda: asyncio.to_thread(used, world), lambda found: patched in found)

    # Services come and go, one of them without our consent
    for name in ("ordinary", "torn"):
        await create(world, name)
        await service(world, name, ingress)
    await gone(world, "ordinary")
    await change(world, "torn", {"spec": {"type": "ClusterIP"}})
    await world.eventually(lambda: balancers(world), lambda left: not left)
    await change(world, "torn", {"spec": {"type": "LoadBalancer"}})
    await service(world, "torn", ingress)
    await tear_off(world, "torn")
    await world.eventually(lambda: balancers(world), lambda left: not left)

    # strangers ask for metrics
    async with aiohttp.ClientSession() as session:
        for headers in ({}, {"Authorization": "Bearer nobody-knows-it"}):
            url = f"https://127.0.0.1:{ccm.port}/metrics"
            async with session.get(url, ssl=False, headers=headers) as answer:
                assert answer.status != 200


async def tear_off(world: World, name: str) -> None:
    """Delete a Service and take its finalizer away before the CCM can do anything for it."""
    await world.sky.fault(method="DELETE", path="/load_balancers/*", status=500, times=2)
    await world.kube("DELETE", f"{SERVICES}/{name}")
    await change(world, name, {"metadata": {"finalizers": None}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def official_world(
    kubernetes: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    async with open_world(kubernetes, tmp_path_factory.mktemp("official"), official_rights()) as world:
        yield world


async def test_the_role_has_what_is_used_and_no_more(world: World) -> None:
    ccm = await world.start(environment=PLACE)
    await world.ready(ccm)
    await live_a_life(world, ccm)
    assert await ccm.stop() == 0
    assert refused(world) == set()
    assert used(world) - DELEGATED == granted()
    assert used(world) >= DELEGATED
    leases = [entry["objectRef"] for entry in world.audited() if entry["objectRef"]["resource"] == LEASES]
    assert {(lease["namespace"], lease.get("name", "cloud-controller-manager")) for lease in leases} == {
        ("kube-system", "cloud-controller-manager")
    }


@pytest.mark.nightly
async def test_the_official_charts_role_is_enough(official_world: World) -> None:
    """Whoever swaps the image alone keeps the role; only who asks for metrics can't be checked with it."""
    world = official_world
    ccm = await world.start(environment=PLACE)
    await world.ready(ccm)
    await live_a_life(world, ccm)
    assert await ccm.stop() == 0
    assert refused(world) <= DELEGATED - {("", "configmaps", "get")}
