import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from emulated_cloud import OTHER_TOKEN, TOKEN, EmulatedCloud
from prometheus_client import CollectorRegistry

from ccm.cloud import (
    AccessDenied,
    Address,
    CloudError,
    CloudUnavailable,
    Instance,
    InstanceNotFound,
    NodeView,
    NotOurs,
)
from ccm.errors import ConfigurationError
from ccm.hetzner import HetznerCloud, open_cloud
from ccm.hetzner.api import UndecodableItem
from ccm.hetzner.api.models import Location, Named, PrivateNet, PublicAddress, Server, ServerPublicNet
from ccm.hetzner.robot.client import RobotServer
from ccm.hetzner.server_to_instance import EXTERNAL_IPV6, FROM_SCRATCH, OFFICIAL, InstanceOptions, describe
from ccm.hetzner.servers import MISS_SECONDS, MISSES_AT_ONCE, explain_absence

HOSTNAME, EXTERNAL, INTERNAL = "Hostname", "ExternalIP", "InternalIP"
SERVER = Server(
    7,
    "a",
    status="running",
    public_net=ServerPublicNet(PublicAddress("203.0.113.9"), PublicAddress("2001:db8:1::/64")),
    private_net=(PrivateNet(1, "10.0.0.2"), PrivateNet(2, "10.1.0.2")),
    server_type=Named("cpx22"),
    location=Location("fsn1", "eu-central"),
    labels={"team": "x", "stage": "y"},
)


def described(server: Server = SERVER, **options: Any) -> Instance:
    return describe(server, InstanceOptions(**{"naming": FROM_SCRATCH, **options}))


def test_region_and_zone_are_network_zone_and_location() -> None:
    instance = described()
    assert (instance.provider_id, instance.type) == ("ccm-from-scratch://7", "cpx22")
    assert (instance.region, instance.zone) == ("eu-central", "fsn1")
    assert instance.labels == {"instance.hetzner.cloud/provided-by": "cloud"}


@pytest.mark.parametrize(
    ("location", "zone"),
    [("nbg1", "nbg1-dc3"), ("hel1", "hel1-dc2"), ("fsn1", "fsn1-dc14"), ("ash", "ash-dc1"),
     ("hil", "hil-dc1"), ("sin", "sin-dc1"), ("new1", "new1")],
)  # fmt: skip
def test_the_official_ones_are_location_and_data_centre(location: str, zone: str) -> None:
    instance = described(Server(7, "a", location=Location(location, "eu-central")), naming=OFFICIAL)
    assert (instance.provider_id, instance.region, instance.zone) == ("hcloud://7", location, zone)


def test_the_zone_can_be_left_out_and_labels_be_copied() -> None:
    instance = described(zone_label=False, copied_labels=frozenset({"team", "none"}))
    assert instance.zone == ""
    assert instance.labels == {"team": "x", "instance.hetzner.cloud/provided-by": "cloud"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ipv4": False}, []),
        ({}, [(EXTERNAL, "203.0.113.9")]),
        ({"ipv4": False, "ipv6": True}, [(EXTERNAL, "2001:db8:1::1")]),
        ({"ipv6": True}, [(EXTERNAL, "203.0.113.9"), (EXTERNAL, "2001:db8:1::1")]),
        ({"network": 2}, [(EXTERNAL, "203.0.113.9"), (INTERNAL, "10.1.0.2")]),
        ({"network": 99}, [(EXTERNAL, "203.0.113.9")]),
    ],
)
def test_addresses(options: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert described(**options).addresses == tuple(Address(*pair) for pair in [(HOSTNAME, "a"), *expected])


def test_a_server_without_public_addresses() -> None:
    assert described(Server(7, "a"), ipv6=True).addresses == (Address(HOSTNAME, "a"),)


@pytest.mark.parametrize(
    ("status", "off"), [("off", True), ("running", False), ("starting", False), ("deleting", False)]
)
def test_only_off_is_shut_down(status: str, off: bool) -> None:
    assert described(Server(7, "a", status=status)).shut_down is off


@asynccontextmanager
async def opened(environment: dict[str, str], **more: Any) -> AsyncIterator[HetznerCloud]:
    """A cloud that isn't started yet."""
    cloud = open_cloud(environment, **more)
    yield cloud
    await cloud.close()


@asynccontextmanager
async def started(environment: dict[str, str], **more: Any) -> AsyncIterator[HetznerCloud]:
    async with opened(environment, **more) as cloud:
        await cloud.start()
        yield cloud


@pytest.fixture
async def cloud(sky: EmulatedCloud) -> AsyncIterator[HetznerCloud]:
    async with started(sky.environment) as cloud:
        await sky.forget_requests()
        yield cloud


def by_id(server: dict[str, Any] | int) -> NodeView:
    number = server if isinstance(server, int) else server["id"]
    return NodeView(name="whatever", provider_id=f"ccm-from-scratch://{number}")


async def test_by_name_first_and_by_id_later(sky: EmulatedCloud, cloud: HetznerCloud) -> None:
    server = await sky.add_server("a")
    found = await cloud.instances.get(NodeView("a"), accepted_age=10)
    assert found.provider_id == f"ccm-from-scratch://{server['id']}"
    assert Address(EXTERNAL, server["public_net"]["ipv4"]["ip"]) in found.addresses
    assert (await cloud.instances.get(by_id(server), accepted_age=10)).name == "a"


@pytest.mark.parametrize("age", [0, 10])
async def test_absent_servers(sky: EmulatedCloud, cloud: HetznerCloud, age: float) -> None:
    await cloud.instances.get(by_id(await sky.add_server("a")), accepted_age=age)
    with pytest.raises(InstanceNotFound):
        await cloud.instances.get(by_id(999), accepted_age=age)
    with pytest.raises(InstanceNotFound):
        await cloud.instances.get(NodeView("b"), accepted_age=age)


async def test_others_are_not_ours_and_cost_nothing(sky: EmulatedCloud, cloud: HetznerCloud) -> None:
    for provider_id in ("aws:///x/i-1", "hcloud://1"):
        with pytest.raises(NotOurs):
            await cloud.instances.get(NodeView("a", provider_id), accepted_age=10)
    assert await sky.counts() == {}


async def test_robot_servers_are_not_known_rather_than_absent(cloud: HetznerCloud) -> None:
    with pytest.raises(CloudError, match="set ROBOT_ENABLED"):
        await cloud.instances.get(NodeView("a", "hrobot://1"), accepted_age=0)


async def test_a_thousand_new_nodes_cost_one_list(sky: EmulatedCloud, cloud: HetznerCloud) -> None:
    names = [f"s{number}" for number in range(200)]
    await asyncio.gather(*(sky.add_server(name) for name in names))
    await sky.forget_requests()
    found = await asyncio.gather(*(cloud.instances.get(NodeView(name), accepted_age=10) for name in names))
    assert [instance.name for instance in found] == names
    assert await sky.counts() == {"GET /servers": 4}


async def test_one_server_of_a_large_project_costs_one_call(sky: EmulatedCloud, cloud: HetznerCloud) -> None:
    servers = await asyncio.gather(*(sky.add_server(f"s{number}") for number in range(120)))
    await cloud.instances.list([by_id(server) for server in servers], accepted_age=60)
    await sky.forget_requests()
    await cloud.instances.get(by_id(servers[7]), accepted_age=0)
    await cloud.instances.list([by_id(servers[7])], accepted_age=0)
    assert await sky.counts() == {"GET /servers/{id}": 2}


async def test_many_nodes_cost_a_list(sky: EmulatedCloud, cloud: HetznerCloud) -> None:
    servers = await asyncio.gather(*(sky.add_server(f"s{number}") for number in range(120)))
    views = [NodeView(server["name"], f"ccm-from-scratch://{server['id']}") for server in servers]
    await sky.forget_requests()
    answers = await cloud.instances.list(
        [*views, NodeView("gone"), NodeView("x", "aws://1")], accepted_age=60
    )
    assert all(isinstance(answers[view.name], Instance) for view in views[:120])
    assert isinstance(answers["gone"], InstanceNotFound)
    assert isinstance(answers["x"], NotOurs)
    assert await sky.counts() == {"GET /servers": 3}


async def test_an_empty_list_proves_nothing(sky: EmulatedCloud, cloud: HetznerCloud) -> None:
    server = await sky.add_server("a")
    await sky.fault(path="/servers", empty_listing=True)
    assert (await cloud.instances.get(by_id(server), accepted_age=0)).name == "a"
    assert (await cloud.instances.get(by_id(server), accepted_age=10)).name == "a"


@pytest.mark.parametrize("fault", [{"code": "unauthorized"}, {"code": "forbidden"}], ids=str)
async def test_no_answer_is_no_absence(
    sky: EmulatedCloud, cloud: HetznerCloud, fault: dict[str, str]
) -> None:
    server = await sky.add_server("a")
    await sky.fault(path="/servers*", **fault)
    for age in (0, 10):
        with pytest.raises(CloudError) as error:
            await cloud.instances.get(by_id(server), accepted_age=age)
        assert not isinstance(error.value, InstanceNotFound)
    assert "rejects the token" in (cloud.healthy() or "")
    await sky.heal()
    await cloud.instances.get(by_id(server), accepted_age=0)
    assert cloud.healthy() is None


UNCHECKED = {"HCLOUD_NETWORK": "net", "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true"}


@asynccontextmanager
async def attached_to(network: str, sky: EmulatedCloud, **more: str) -> AsyncIterator[HetznerCloud]:
    """A cloud on a machine in this network, which isn't started yet."""

    async def metadata() -> str:
        if network == "unreachable":
            raise CloudUnavailable("the metadata service does not answer: ClientConnectorError")
        return f"- ip: 10.0.0.2\n  network_id: {network}\n  network_name: net\n" if network else "[]"

    async with opened(sky.environment | more, registry=CollectorRegistry()) as cloud:
        cloud._attached_networks = metadata
        yield cloud


@pytest.mark.parametrize("by", ["name", "id"])
async def test_the_network_gives_internal_addresses(sky: EmulatedCloud, by: str) -> None:
    network = await sky.network("net")
    server = await sky.add_server("a", networks=[network])
    chosen = str(network) if by == "id" else "net"
    async with attached_to(str(network), sky, HCLOUD_NETWORK=chosen) as cloud:
        await cloud.start()
        instance = await cloud.instances.get(by_id(server), accepted_age=0)
        assert Address(INTERNAL, server["private_net"][0]["ip"]) in instance.addresses


async def test_an_unknown_network_is_named(sky: EmulatedCloud) -> None:
    async with opened(sky.environment | {"HCLOUD_NETWORK": "nope"}) as cloud:
        with pytest.raises(ConfigurationError, match=r"HCLOUD_NETWORK: .*'nope'"):
            await cloud.start()


@pytest.mark.parametrize("attached", ["", "999", "unreachable"])
async def test_standing_outside_of_the_network_is_a_problem(sky: EmulatedCloud, attached: str) -> None:
    await sky.network("net")
    async with attached_to(attached, sky, HCLOUD_NETWORK="net") as cloud:
        with pytest.raises(ConfigurationError, match="HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK=true"):
            await cloud.start()
    async with attached_to(attached, sky, **UNCHECKED) as cloud:
        await cloud.start()


async def test_a_token_of_another_project_is_recognized_by_the_network(sky: EmulatedCloud, tmp_path) -> None:
    network = await sky.network("net")
    server = await sky.add_server("a")
    token = tmp_path / "token"
    token.write_text(TOKEN)
    file = {"HCLOUD_ENDPOINT": sky.endpoint, "HCLOUD_TOKEN_FILE": str(token)}
    cloud = open_cloud(UNCHECKED | file | {"HCLOUD_NETWORK": str(network)})
    await cloud.start()
    await cloud.instances.get(by_id(server), accepted_age=0)
    token.write_text(OTHER_TOKEN)
    assert cloud.healthy() is None
    with pytest.raises(AccessDenied, match="The token probably belongs to another project") as denied:
        await cloud.instances.get(by_id(server), accepted_age=0)
    assert [notice.reason for notice in denied.value.notices] == ["WrongProject"]
    assert "another project" in (cloud.healthy() or "")
    token.write_text(TOKEN)
    await cloud.instances.get(by_id(server), accepted_age=0)
    assert cloud.healthy() is None, "and it is over when a server of ours is seen again"

    token.write_text(OTHER_TOKEN)
    assert cloud.routes is not None
    with pytest.raises(AccessDenied, match="another project"):
        await cloud.routes.list(accepted_age=0)
    assert "another project" in (cloud.healthy() or "")
    token.write_text(TOKEN)
    await cloud.routes.list(accepted_age=0)
    assert cloud.healthy() is None
    await cloud.close()


async def test_without_a_network_a_new_token_needs_proof(sky: EmulatedCloud, tmp_path: Path) -> None:
    kept, gone = await sky.add_server("kept"), await sky.add_server("gone")
    token = tmp_path / "token"
    token.write_text(TOKEN)
    cloud = open_cloud({"HCLOUD_ENDPOINT": sky.endpoint, "HCLOUD_TOKEN_FILE": str(token)})
    await cloud.start()
    await cloud.instances.get(by_id(gone), accepted_age=0)
    token.write_text(OTHER_TOKEN)
    with pytest.raises(AccessDenied, match="another project") as denied:
        await cloud.instances.get(by_id(gone), accepted_age=0)
    assert [notice.reason for notice in denied.value.notices] == ["WrongProject"]
    assert "another project" in (cloud.healthy() or "")

    await sky.call("DELETE", f"/servers/{gone['id']}")
    token.write_text(TOKEN)
    with pytest.raises(AccessDenied):
        await cloud.instances.get(by_id(gone), accepted_age=0)
    await cloud.instances.get(by_id(kept), accepted_age=0)
    assert cloud.healthy() is None
    with pytest.raises(InstanceNotFound):
        await cloud.instances.get(by_id(gone), accepted_age=0)
    await cloud.close()


async def test_a_project_that_never_had_a_server_of_ours_proves_nothing(sky: EmulatedCloud) -> None:
    """As with another project's token at the start, where there is one Node and no network."""
    ours, gone = await sky.add_server("ours"), await sky.add_server("gone")
    environment = sky.environment | {"HCLOUD_TOKEN": OTHER_TOKEN}
    async with opened(environment) as cloud:
        for age in (0, 10):
            with pytest.raises(AccessDenied, match="has none of the cluster's servers") as denied:
                await cloud.instances.get(by_id(gone), accepted_age=age)
        assert "--mass-deletion-breaker=false" in denied.value.message
        assert "another project" in (cloud.healthy() or "")
    async with opened(environment | {"CCM_MASS_DELETION_BREAKER": "false"}) as cloud:
        with pytest.raises(InstanceNotFound):
            await cloud.instances.get(by_id(gone), accepted_age=0)
        assert cloud.healthy() is None
    await sky.call("DELETE", f"/servers/{gone['id']}")
    async with opened(sky.environment) as cloud:
        await cloud.instances.list([by_id(ours), by_id(gone)], accepted_age=10)
        with pytest.raises(InstanceNotFound):
            await cloud.instances.get(by_id(gone), accepted_age=0)


async def test_a_wrong_token_at_the_start(sky: EmulatedCloud) -> None:
    async with opened(sky.environment | {"HCLOUD_TOKEN": "w" * 64}) as cloud:
        with pytest.raises(ConfigurationError, match="HCLOUD_TOKEN: the API rejects the token"):
            await cloud.start()


def test_an_unknown_name_of_the_provider() -> None:
    with pytest.raises(ConfigurationError, match="--cloud-provider: 'aws' is not ccm-from-scratch or hcloud"):
        open_cloud({"HCLOUD_TOKEN": "t" * 64}, provider="aws")


@pytest.mark.parametrize(("mode", "requests"), [("all", 1), ("off", 3)])
@pytest.mark.parametrize("names", ["a", "ab"])
async def test_the_owner_may_switch_the_cache_off(
    sky: EmulatedCloud, mode: str, requests: int, names: str
) -> None:
    nodes = [by_id(await sky.add_server(name)) for name in names]
    registry = CollectorRegistry()
    environment = sky.environment | {"HCLOUD_SERVER_CACHE_MODE": mode}
    async with opened(environment, registry=registry) as cloud:
        await sky.forget_requests()
        for _ in range(3):
            if len(nodes) == 1:
                await cloud.instances.get(nodes[0], accepted_age=600)
            else:
                await cloud.instances.list(nodes, accepted_age=600)
        assert sum((await sky.counts()).values()) == requests
    labels = {"subsystem": "instances_v2", "mode": mode, "result": "miss"}
    name = "cloud_controller_manager_server_cache_requests_total"
    if len(nodes) == 1:
        assert registry.get_sample_value(name, labels) == requests


def test_an_ipv6_address_that_is_not_the_first_of_its_network() -> None:
    def addresses(text: str, **options: Any) -> tuple[list[str], list[str]]:
        chosen = InstanceOptions(**{"naming": OFFICIAL, "ipv4": False, "ipv6": True, **options})
        found = describe(SERVER, chosen, {EXTERNAL_IPV6: text})
        return [address.address for address in found.addresses[1:]], [
            notice.reason for notice in found.notices
        ]

    assert addresses("2001:db8:1::5") == (["2001:db8:1::5"], [])
    assert addresses("2001:DB8:1:0:0::5 ") == (["2001:db8:1::5"], [])
    assert addresses("") == (["2001:db8:1::1"], [])
    assert addresses("10.0.0.1") == (["2001:db8:1::1"], ["InvalidExternalIPv6"])
    assert addresses("2001:db8:1::5%\n" + "x" * 9999) == (["2001:db8:1::1"], ["InvalidExternalIPv6"])
    assert addresses("2001:db8:1::5", ipv6=False) == ([], [])


NAMED_ALIKE = [Server(4, "worker-a"), Server(5, "Worker-B")]
AT_NINE = NodeView("node-1", addresses=(Address(HOSTNAME, "node-1"), Address(EXTERNAL, "203.0.113.9")))
NOWHERE = NodeView("node-1", addresses=(Address(INTERNAL, ""),))
METAL = RobotServer(7, "metal", server_ip="203.0.113.9")


@pytest.mark.parametrize(
    ("node", "servers", "dedicated", "says"),
    [
        (NodeView("worker-b"), NAMED_ALIKE, None, "Server 5 is named 'Worker-B'"),
        (AT_NINE, [SERVER], None, "Server 7 has the address 203.0.113.9 of this Node, but is named 'a'"),
        (
            AT_NINE,
            [],
            [METAL],
            "Robot server 7 has the address 203.0.113.9 of this Node, but is named 'metal'",
        ),
        # A kubelet may report an empty address, and a server without a public address has one.
        (NOWHERE, [Server(5, "another")], None, "Hetzner Cloud has no server named node-1; a node and its"),
    ],
)
def test_why_a_server_is_not_found(
    node: NodeView, servers: list[Server], dedicated: list[RobotServer] | None, says: str
) -> None:
    why = explain_absence(node, servers, dedicated)
    assert why.reason == "InstanceLookupFailed"
    assert says in why.message
    assert ("of this Node, but is named" in why.message) == (node is AT_NINE)


async def test_what_the_official_ccm_counts(sky: EmulatedCloud) -> None:
    network = await sky.network("net")
    server = await sky.add_server("a", networks=[network])
    registry = CollectorRegistry()
    async with started(sky.environment | UNCHECKED, registry=registry) as cloud:
        for _ in range(3):
            await cloud.instances.get(by_id(server), accepted_age=600)
        await cloud.routes.list(accepted_age=600)

    def count(**labels: str) -> float | None:
        name = "server_cache_requests_total" if "subsystem" in labels else "operations_total"
        return registry.get_sample_value(f"cloud_controller_manager_{name}", labels)

    assert count(op="hcloud/instancesv2.InstanceMetadata") == 3
    assert count(op="hcloud/ListRoutes") == 1
    assert count(subsystem="instances_v2", mode="all", result="miss") == 1
    assert count(subsystem="instances_v2", mode="all", result="hit") == 2
    assert count(subsystem="routes", mode="all", result="hit") == 1


async def test_the_official_name(sky: EmulatedCloud) -> None:
    server = await sky.add_server("a")
    environment = sky.environment | {"HCLOUD_METRICS_ADDRESS": "127.0.0.1:0"}
    async with started(environment, provider="hcloud") as cloud:
        assert cloud.name == "hcloud"
        found = await cloud.instances.get(NodeView("a"), accepted_age=0)
        assert (found.provider_id, found.region) == (f"hcloud://{server['id']}", "fsn1")


async def test_the_official_metrics_address(sky: EmulatedCloud) -> None:
    def chosen(port: int) -> dict[str, str]:
        address = f"127.0.0.1:{port}"
        return sky.environment | {"HCLOUD_METRICS_ENABLED": "true", "HCLOUD_METRICS_ADDRESS": address}

    async with started(chosen(0), registry=CollectorRegistry()) as cloud:
        port = cloud._metrics_server.port
        async with sky.session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            assert "hcloud_api_requests_total{" in await answer.text()
        async with started(chosen(port), registry=CollectorRegistry()) as other:
            assert other._metrics_server.port == 0, "a port in use is no reason to stop"


async def test_who_only_looks_may_stand_anywhere_and_serves_nothing(sky: EmulatedCloud) -> None:
    await sky.network("net")
    asked = {"HCLOUD_NETWORK": "net", "HCLOUD_METRICS_ENABLED": "true", "CCM_DRY_RUN": "true"}
    async with attached_to("unreachable", sky, **asked) as cloud:
        await cloud.start()
        assert cloud.routes is not None
        assert cloud._metrics_server is None


async def test_what_the_settings_switch_on_and_off(sky: EmulatedCloud) -> None:
    await sky.network("net")
    for more, routes, balancers in (
        ({}, False, True),
        (UNCHECKED, True, True),
        (UNCHECKED | {"HCLOUD_NETWORK_ROUTES_ENABLED": "false"}, False, True),
        ({"HCLOUD_LOAD_BALANCERS_ENABLED": "false"}, False, False),
    ):
        async with started(sky.environment | more) as cloud:
            assert cloud.instances is not None
            assert cloud._metrics_server is None
            assert (cloud.routes is not None, cloud.load_balancers is not None) == (routes, balancers)


async def test_an_undecodable_server_exists(sky: EmulatedCloud, cloud: HetznerCloud) -> None:
    servers = [await sky.add_server(f"s{number}") for number in range(3)]
    views = [NodeView(server["name"], f"ccm-from-scratch://{server['id']}") for server in servers]
    await cloud.instances.list(views, accepted_age=0)
    odd = servers[1]["id"]
    cloud.servers.remove(odd)
    cloud.servers.contents.undecodable[odd] = UndecodableItem(odd, "s1", "it has no name")
    answers = await cloud.instances.list(views, accepted_age=600)
    assert isinstance(answers["s0"], Instance)
    assert isinstance(answers["s1"], CloudUnavailable)
    assert "it has no name" in str(answers["s1"])


@pytest.mark.parametrize("by", ["name", "id"])
async def test_nodes_without_servers_cost_few_requests(
    sky: EmulatedCloud, cloud: HetznerCloud, by: str
) -> None:
    """A kubelet may invent any number of them. A server that comes meanwhile is found within a minute."""
    now = 0.0
    cloud.instances._servers._clock = lambda: now
    cloud.servers._clock = lambda: now
    await sky.add_server("a")
    await cloud.instances.get(NodeView("a"), accepted_age=10)
    await sky.forget_requests()
    for second in range(0, 600, 5):
        now = float(second)
        for number in range(40):
            name, id_ = f"invented-{second}-{number}", f"ccm-from-scratch://{99000000 + 40 * second + number}"
            node = NodeView(name, id_ if by == "id" else "")
            with pytest.raises(InstanceNotFound):
                await cloud.instances.get(node, accepted_age=10)
    assert sum((await sky.counts()).values()) <= 2 * MISSES_AT_ONCE + 3 * 600 / MISS_SECONDS
    await sky.add_server("late")
    now += MISS_SECONDS
    assert (await cloud.instances.get(NodeView("late"), accepted_age=10)).name == "late"
    with pytest.raises(InstanceNotFound):
        await cloud.instances.get(NodeView("gone", "ccm-from-scratch://98000000"), accepted_age=0)
    assert (await sky.counts()).get("GET /servers/{id}", 0) >= 1, "before a deletion the cloud is asked"
