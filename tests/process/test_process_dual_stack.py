from ipaddress import IPv6Network

import pytest
import pytest_asyncio
from process_world import open_world
from test_process_nodes_and_routes import condition
from test_process_services import balancer

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

PODS, SERVICES = "10.244.0.0/16,fd42::/48", "10.43.0.0/16,fd43::/112"
CONTROL_PLANE = {
    "kube-apiserver": {"service-cluster-ip-range": SERVICES},
    "kube-controller-manager": {"service-cluster-ip-range": SERVICES, "cluster-cidr": PODS},
}
BOTH = {"HCLOUD_INSTANCES_ADDRESS_FAMILY": "dualstack", "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1"}
IN_DEFAULT = "/api/v1/namespaces/default/services"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world(kubernetes, tmp_path_factory):
    """In place of the one with IPv4 alone."""
    async with open_world(kubernetes, tmp_path_factory.mktemp("dual"), extra=CONTROL_PLANE) as world:
        world.server = await world.machine("alpha", 11, dual=True)
        yield world


async def start(world):
    await world.ready(await world.start(f"--cluster-cidr={PODS}", environment=BOTH))


async def test_a_node_has_addresses_of_both_and_a_route_for_the_family_that_is_routed(world):
    await start(world)
    node = await world.node("alpha", lambda node: (condition(node) or ("",))[0] == "False")
    # What --node-ip names counts for its type, as in Kubernetes' own framework: the public IPv4 address goes.
    assert {(one["type"], one["address"]) for one in node["status"]["addresses"]} == {
        ("Hostname", "alpha"),
        ("InternalIP", "10.0.0.11"),
        ("ExternalIP", str(IPv6Network(world.server["public_net"]["ipv6"]["ip"])[1])),
    }
    four, six = node["spec"]["podCIDRs"]
    assert IPv6Network(six).subnet_of(IPv6Network("fd42::/48"))
    assert await world.routes() == {four: "10.0.0.11"}
    events = await world.eventually(lambda: world.events("alpha"), lambda found: "PodCIDRNotRouted" in found)
    assert six in events["PodCIDRNotRouted"]
    assert four not in events["PodCIDRNotRouted"]


async def test_both_families_get_addresses_and_ipv6_alone_is_reported(world):
    await start(world)
    spec = {"type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]}
    made = await world.kube("POST", IN_DEFAULT, {"metadata": {"name": "both"}, "spec": spec})
    assert made["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    item = await world.eventually(
        lambda: world.read(f"{IN_DEFAULT}/both"), lambda found: found["status"]["loadBalancer"].get("ingress")
    )
    # the Node becomes a target when it is initialized
    found = await balancer(world, lambda one: one["targets"])
    addresses = {one.get("ip") for one in item["status"]["loadBalancer"]["ingress"]}
    assert {found["public_net"]["ipv4"]["ip"], found["public_net"]["ipv6"]["ip"]} <= addresses
    assert [target["server"]["id"] for target in found["targets"]] == [world.server["id"]]
    assert "UnsupportedFieldConfigured" not in await world.events("both")
    spec = {"type": "LoadBalancer", "ipFamilies": ["IPv6"], "ports": [{"port": 80}]}
    await world.kube("POST", IN_DEFAULT, {"metadata": {"name": "six"}, "spec": spec})
    events = await world.eventually(lambda: world.events("six"), lambda found: "IPFamilyUnsupported" in found)
    assert "only IPv6" in events["IPFamilyUnsupported"]
