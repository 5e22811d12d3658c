import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from emulated_cloud import TOKEN
from process_world import Ccm, World
from test_process_nodes_and_routes import taints
from test_process_services import MERGE, SERVICES, balancers

from ccm.controllers.names import SHUTDOWN_TAINT, UNINITIALIZED_TAINT
from tests.tutorial_steps import program_of

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SCHEME = "ccm-from-scratch://"
FLAGS = ("--cloud-provider=ccm-from-scratch",)


async def start(world: World, step: str) -> Ccm:
    folder = world.directory / step
    folder.mkdir()
    for name, text in program_of(step).items():
        (folder / name).write_text(text)
    world.program = ("-u", str(folder / "main.py"))
    return await world.start(*FLAGS, environment={"HCLOUD_TOKEN": TOKEN})


@pytest.fixture(autouse=True)
def program(world: World) -> Iterator[None]:
    yield
    world.program = ("-m", "ccm")


def listeners(balancer: dict[str, Any]) -> dict[int, int]:
    return {each["listen_port"]: each["destination_port"] for each in balancer["services"]}


def names(listed: dict[str, Any]) -> set[str]:
    return {item["metadata"]["name"] for item in listed["items"]}


def is_initialized(node: dict[str, Any]) -> bool:
    return UNINITIALIZED_TAINT not in taints(node)


async def test_part_1_is_ready_and_runs_no_controller(world: World) -> None:
    ccm = await start(world, "part-1")
    await world.eventually(lambda: asyncio.to_thread(ccm.text), lambda text: "nothing_to_do" in text)
    assert await ccm.get("/readyz") == (200, "ok")
    assert ccm.text().count("controller_skipped") == 4
    assert await ccm.stop() == 0


async def test_nodes_are_initialized_and_go_with_their_servers(world: World) -> None:
    await start(world, "part-3")
    name = "initialized"
    server = await world.machine(name, 11)
    node = await world.node(name, is_initialized)
    assert node["spec"]["providerID"] == f"{SCHEME}{server['id']}"
    labels = node["metadata"]["labels"]
    assert labels["node.kubernetes.io/instance-type"] == "cpx22"
    assert labels["topology.kubernetes.io/region"] == "eu-central"
    assert labels["topology.kubernetes.io/zone"] == "fsn1"
    assert {(each["type"], each["address"]) for each in node["status"]["addresses"]} == {
        ("Hostname", name),
        ("ExternalIP", server["public_net"]["ipv4"]["ip"]),
        ("InternalIP", "10.0.0.11"),
    }
    await world.sky.call("POST", f"/servers/{server['id']}/actions/poweroff")
    await world.not_ready(name)
    await world.node(name, lambda node: SHUTDOWN_TAINT in taints(node))
    await world.sky.call("DELETE", f"/servers/{server['id']}")
    await world.eventually(lambda: world.read("/api/v1/nodes"), lambda found: name not in names(found))


async def test_a_service_gets_a_load_balancer_that_follows_and_goes_with_it(world: World) -> None:
    ccm = await start(world, "part-4")
    server = await world.machine("target", 12)
    await world.node("target", is_initialized)
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    wanted = {"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer", "ports": ports}}
    await world.kube("POST", SERVICES, wanted)
    service = await world.eventually(
        lambda: world.read(f"{SERVICES}/web"), lambda found: found["status"]["loadBalancer"]
    )
    (balancer,) = await balancers(world)
    (ingress,) = service["status"]["loadBalancer"]["ingress"]
    assert ingress["ip"] == balancer["public_net"]["ipv4"]["ip"]
    node_ports = {port["port"]: port["nodePort"] for port in service["spec"]["ports"]}
    assert listeners(balancer) == node_ports
    assert [target["server"]["id"] for target in balancer["targets"]] == [server["id"]]
    structs = re.findall(r"^(Spec|Observed|Desired|\(Step|Applied)\(", ccm.text(), re.MULTILINE)
    assert structs == ["Spec", "Observed", "Desired", "(Step", "Applied"]

    # a port goes, another one changes, and the Node is taken out
    ports = [{"name": "b", "port": 81, "nodePort": 32000}]
    await world.kube("PATCH", f"{SERVICES}/web", {"spec": {"ports": ports}}, MERGE)
    exclude = {"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}}
    await world.kube("PATCH", "/api/v1/nodes/target", exclude, MERGE)
    await world.eventually(
        lambda: balancers(world), lambda found: listeners(found[0]) == {81: 32000} and not found[0]["targets"]
    )
    await world.kube("DELETE", f"{SERVICES}/web")
    await world.eventually(lambda: world.read(SERVICES), lambda found: "web" not in names(found))
    assert await balancers(world) == []


async def test_routes_follow_nodes(world: World) -> None:
    await start(world, "part-5")
    await world.machine("routed", 13)
    await world.machine("stays", 14)  # without a Node, no route is deleted
    node = await world.node("routed", lambda node: is_initialized(node) and "podCIDR" in node["spec"])
    route = {"destination": node["spec"]["podCIDR"], "gateway": "10.0.0.13"}
    await world.eventually(world.routes, lambda found: found.get(route["destination"]) == route["gateway"])
    await world.sky.call("POST", f"/networks/{world.network}/actions/delete_route", route)
    await world.eventually(world.routes, lambda found: route["destination"] in found)
    await world.kube("DELETE", "/api/v1/nodes/routed")
    await world.eventually(world.routes, lambda found: route["destination"] not in found)
