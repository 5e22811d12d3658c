from collections.abc import Callable
from typing import Any

import pytest
from process_world import Ccm, World

from ccm.controllers.names import AUTOSCALER_TAINT, CLEANUP_FINALIZER
from ccm.controllers.service.syncer import write_status
from ccm.kube.errors import KubernetesError
from ccm.kube.objects import LoadBalancerIngress, Service, decode_object
from ccm.kube.transport import KubernetesTransport

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SERVICES = "/api/v1/namespaces/default/services"
PREFIX = "load-balancer.hetzner.cloud/"
MERGE = "application/merge-patch+json"
PLACE = {"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1"}


def body(name: str, *ports: int, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    wire = [{"name": f"p{port}", "port": port, "targetPort": 8080} for port in ports or (80,)]
    metadata = {"name": name, "annotations": {PREFIX + k: v for k, v in (annotations or {}).items()}}
    return {"metadata": metadata, "spec": {"type": "LoadBalancer", "ports": wire, **spec}}


async def create(world: World, name: str, *ports: int, **more: Any) -> dict[str, Any]:
    return await world.kube("POST", SERVICES, body(name, *ports, **more))


async def change(world: World, name: str, patch: dict[str, Any]) -> dict[str, Any]:
    return await world.kube("PATCH", f"{SERVICES}/{name}", patch, MERGE)


async def annotate(world: World, name: str, **annotations: str | None) -> None:
    wanted = {PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    await change(world, name, {"metadata": {"annotations": wanted}})


async def service(world: World, name: str, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    return await world.eventually(lambda: world.read(f"{SERVICES}/{name}"), wanted)


def ingress(item: dict[str, Any]) -> list[dict[str, Any]]:
    return item["status"]["loadBalancer"].get("ingress", [])


async def balancers(world: World) -> list[dict[str, Any]]:
    return (await world.sky.call("GET", "/load_balancers"))["load_balancers"]


async def balancer(world: World, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The only load balancer, once it is as wanted."""
    [found] = await world.eventually(
        lambda: balancers(world), lambda all_: len(all_) == 1 and wanted(all_[0])
    )
    return found


async def gone(world: World, name: str) -> None:
    await world.kube("DELETE", f"{SERVICES}/{name}")
    await world.eventually(
        lambda: world.read(SERVICES),
        lambda found: name not in [one["metadata"]["name"] for one in found["items"]],
    )


def servers(one: dict[str, Any]) -> set[int]:
    return {target["server"]["id"] for target in one["targets"]}


async def start(world: World, *flags: str) -> Ccm:
    ccm = await world.start(*flags, environment=PLACE)
    await world.ready(ccm)
    return ccm


@pytest.mark.smoke
async def test_the_life_of_a_service(world: World) -> None:
    ccm = await start(world)
    alpha = await world.machine("alpha", 11)
    made = await create(world, "web", 80, 443)
    ports = {one["port"]: one["nodePort"] for one in made["spec"]["ports"]}
    found = await balancer(world, lambda one: servers(one) == {alpha["id"]})
    assert {one["listen_port"]: one["destination_port"] for one in found["services"]} == ports
    assert found["labels"]["hcloud-ccm/service-uid"] == made["metadata"]["uid"]
    item = await service(world, "web", ingress)
    assert item["metadata"]["finalizers"] == [CLEANUP_FINALIZER]
    public = found["public_net"]
    assert {entry["ip"]: entry["ipMode"] for entry in ingress(item)} == {
        public["ipv4"]["ip"]: "VIP",
        public["ipv6"]["ip"]: "VIP",
        found["private_net"][0]["ip"]: "VIP",
    }
    events = await world.eventually(lambda: world.events("web"), lambda e: "EnsuredLoadBalancer" in e)
    assert events["EnsuringLoadBalancer"] == "Ensuring load balancer"

    # ports, protocol, algorithm
    wire = [{"name": "p80", "port": 80, "targetPort": 8080, "nodePort": 30999}]
    await change(world, "web", {"spec": {"ports": wire}})
    await annotate(
        world, "web", protocol="http", uses_proxyprotocol="true", algorithm_type="least_connections"
    )
    await balancer(
        world,
        lambda one: (
            [(s["protocol"], s["destination_port"]) for s in one["services"]] == [("http", 30999)]
            and one["algorithm"]["type"] == "least_connections"
        ),
    )
    await service(world, "web", lambda one: {each["ipMode"] for each in ingress(one)} == {"Proxy"})
    await annotate(world, "web", protocol=None, uses_proxyprotocol=None, algorithm_type=None)
    await balancer(world, lambda one: one["services"][0]["protocol"] == "tcp")
    await service(world, "web", lambda one: {each["ipMode"] for each in ingress(one)} == {"VIP"})

    # traffic stays on the node: kube-proxy tells which nodes are well
    await change(world, "web", {"spec": {"externalTrafficPolicy": "Local"}})
    local = await service(world, "web", lambda one: one["spec"].get("healthCheckNodePort"))
    check = {"port": local["spec"]["healthCheckNodePort"], "protocol": "http"}
    await balancer(world, lambda one: check.items() <= one["services"][0]["health_check"].items())

    # a status that somebody wiped
    await world.kube(
        "PATCH", f"{SERVICES}/web/status", {"status": {"loadBalancer": {"ingress": None}}}, MERGE
    )
    await service(world, "web", ingress)

    # it wants none any more, and then one again
    await change(world, "web", {"spec": {"type": "ClusterIP", "externalTrafficPolicy": None}})
    item = await service(world, "web", lambda one: "finalizers" not in one["metadata"])
    assert ingress(item) == []
    assert await balancers(world) == []
    await change(world, "web", {"spec": {"type": "LoadBalancer"}})
    await service(world, "web", ingress)
    await gone(world, "web")
    assert await balancers(world) == []
    assert "DeletedLoadBalancer" in await world.eventually(
        lambda: world.events("web"), lambda e: "DeletedLoadBalancer" in e
    )
    assert await ccm.stop() == 0
    assert '"level":"error"' not in ccm.text()


async def test_nodes_come_leave_and_change_their_labels(world: World) -> None:
    await start(world)
    beta, gamma = await world.machine("beta", 12), await world.machine("gamma", 13)
    await world.node("gamma", lambda one: one["spec"].get("providerID"))
    await create(world, "web", annotations={"node-selector": "pool=edge", "use-private-ip": "true"})
    await balancer(world, lambda one: servers(one) == set())
    for name in ("beta", "gamma"):
        await world.kube("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {"pool": "edge"}}}, MERGE)
    found = await balancer(world, lambda one: servers(one) == {beta["id"], gamma["id"]})
    assert {one["use_private_ip"] for one in found["targets"]} == {True}
    events = await world.eventually(lambda: world.events("web"), lambda e: "UpdatedLoadBalancer" in e)
    assert events["UpdatedLoadBalancer"] == "Updated load balancer with new hosts"
    taint = {"key": AUTOSCALER_TAINT, "effect": "NoSchedule"}
    node = await world.read("/api/v1/nodes/gamma")
    taints = {"spec": {"taints": [*node["spec"].get("taints", []), taint]}}
    await world.kube("PATCH", "/api/v1/nodes/gamma", taints, MERGE)
    await balancer(world, lambda one: servers(one) == {beta["id"]})
    await gone(world, "web")


async def test_bad_annotations_are_one_event_and_delay_no_other_service(world: World) -> None:
    await start(world)
    await create(world, "odd", annotations={"algorithm-type": "random", "port.80.http-timeout-idle": "1"})
    await create(world, "even")
    await service(world, "even", ingress)
    events = await world.eventually(
        lambda: world.events("odd"), lambda e: "InvalidLoadBalancerAnnotation" in e
    )
    assert "algorithm-type: 'random' is not round_robin or" in events["InvalidLoadBalancerAnnotation"]
    assert "port.80.http-timeout-idle: '1' is not 30 to 300" in events["InvalidLoadBalancerAnnotation"]
    assert ingress(await world.read(f"{SERVICES}/odd")) == []
    await annotate(world, "odd", algorithm_type=None, **{"port.80.http-timeout-idle": None})
    await service(world, "odd", ingress)
    await gone(world, "odd")
    await gone(world, "even")


async def test_services_of_other_classes_are_left_alone(world: World) -> None:
    await start(world, "--load-balancer-classes=hetzner.cloud/lb", "--services-without-class=false")
    await create(world, "theirs", loadBalancerClass="metallb.example/bgp")
    await create(world, "plain")
    await create(world, "ours", loadBalancerClass="hetzner.cloud/lb")
    await service(world, "ours", ingress)
    for name in ("theirs", "plain"):
        item = await world.read(f"{SERVICES}/{name}")
        assert "finalizers" not in item["metadata"]
        assert ingress(item) == []
    for name in ("theirs", "plain", "ours"):
        await gone(world, name)
    assert await balancers(world) == []


async def test_the_api_server_refuses_a_status_for_a_service_of_before(world: World) -> None:
    old = decode_object(await create(world, "web", type="ClusterIP"), Service)
    transport = await KubernetesTransport.connect(environment={}, kubeconfig=str(world.kubeconfig))
    try:
        await gone(world, "web")
        await create(world, "web", type="ClusterIP")
        with pytest.raises(KubernetesError):
            await write_status(transport, old, (LoadBalancerIngress(ip="203.0.113.80"),))
    finally:
        await transport.close()
    assert ingress(await world.read(f"{SERVICES}/web")) == []
    await gone(world, "web")
