from dataclasses import replace
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.cloud import Machine, Route, RouteTable
from ccm.controllers.route import parse_cluster_cidrs
from ccm.controllers.route_plan import RouteNode, RoutePlan, RouteSpec, canonical, is_responsible, plan_routes
from ccm.errors import ConfigurationError

CLUSTER = (ip_network("10.244.0.0/16"),)


def node(number: int, *cidrs: str, name: str = "") -> RouteNode:
    return RouteNode(name or f"n{number}", f"fake://{number}", cidrs, (f"10.0.0.{number}",))


def table(machines: tuple[int, ...], *routes: tuple[str, str], **more: object) -> RouteTable:
    """Machine 1 has 10.0.0.1, and so on."""
    known = {f"10.0.0.{n}": Machine(f"fake://{n}", f"server-{n}", f"10.0.0.{n}") for n in machines}
    return replace(RouteTable(tuple(Route(*route) for route in routes), known), **more)  # type: ignore[arg-type]


def created(plan: RoutePlan) -> list[tuple[str, str]]:
    return [
        (route_spec.route.destination, route_spec.route.gateway)
        for route_spec in plan.creations
        if route_spec.route
    ]


def problems(plan: RoutePlan) -> dict[str, str]:
    return {route_spec.node: route_spec.problem for route_spec in plan.specs if route_spec.problem}


def for_nodes(world: RouteTable, names: dict[int, str]) -> RouteTable:
    """The network of a cloud that says which Node each machine is for."""
    machines = {
        address: replace(machine, node=names[int(machine.provider_id.removeprefix("fake://"))])
        for address, machine in world.machines.items()
    }
    return replace(world, machines=machines)


def deleted(plan: RoutePlan) -> list[tuple[str, str]]:
    return [(route.destination, route.gateway) for route in plan.deletions]


A, B, C = "10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24"
TWO = [node(1, A), node(2, B)]


R1, R2 = (A, "10.0.0.1"), (B, "10.0.0.2")
SWALLOWS, OTHER_SIZE = ("10.244.0.0/22", "10.0.0.9"), ("10.244.128.0/17", "10.0.0.9")
OUTSIDE = [("10.1.0.0/24", "10.0.0.9"), ("10.245.0.0/24", "10.0.0.9")]
WIDER, NARROWER = ("10.244.0.0/20", "10.0.0.7"), ("10.244.1.0/25", "10.0.0.7")
FOREIGN, IN_THE_WAY = (C, "10.0.0.7"), (A, "10.0.0.7")
UNNAMED = RouteNode("server-1", "", (A,), ("10.0.0.1",))


@pytest.mark.parametrize(
    ("nodes", "world", "former", "gone", "made"),
    [
        pytest.param(TWO, table((1, 2), R1, R2, (C, "10.0.0.1")), [], [(C, "10.0.0.1")], [], id="second"),
        pytest.param(TWO, table((1, 2), R1, R2, (C, "10.0.0.9")), [], [(C, "10.0.0.9")], [], id="blackhole"),
        pytest.param(TWO, table((1, 2), R1, R2, *OUTSIDE), [], [], [], id="blackholes outside the range"),
        pytest.param(TWO, table((1, 2), OTHER_SIZE), [], [], [R1, R2], id="blackhole, not from a node"),
        pytest.param(TWO, table((1, 2), SWALLOWS), [], [SWALLOWS], [R1, R2], id="swallows the nodes' own"),
        pytest.param(TWO, table((1, 2, 7), R1, R2, FOREIGN), [], [], [], id="foreign machine"),
        pytest.param(TWO, table((1, 2, 7), R1, R2, FOREIGN), [node(7)], [FOREIGN], [], id="former node"),
        pytest.param(TWO, table((1, 2, 7), IN_THE_WAY), [], [IN_THE_WAY], [R1, R2], id="a node's CIDR"),
        pytest.param(TWO, table((1, 2, 7), WIDER, NARROWER), [], [], [R1, R2], id="foreign, another size"),
        pytest.param([UNNAMED], table((1,)), [], [], [R1], id="a node without provider ID, by its name"),
        pytest.param(
            [node(1, C, name="aaa"), UNNAMED], for_nodes(table((1,)), {1: "server-1"}), [], [], [R1],
            id="an invented node hides no machine from one without provider ID",
        ),
    ],
)  # fmt: skip
def test_what_goes_and_what_is_made(nodes, world, former, gone, made) -> None:
    plan = plan_routes(nodes, world, CLUSTER, former=former)
    assert (deleted(plan), created(plan)) == (gone, made)


def test_missing_ones_are_created() -> None:
    plan = plan_routes([*TWO, node(3, C)], table((1, 2), (A, "10.0.0.1")), CLUSTER)
    assert created(plan) == [(B, "10.0.0.2")]
    assert plan.specs[1:] == (
        RouteSpec("n2", B, Route(B, "10.0.0.2")),
        RouteSpec("n3", C, problem="the machine of the node is not in the network"),
    )


def test_a_node_without_cidr_whose_machine_has_a_route_is_not_available() -> None:
    plan = plan_routes(
        [node(1), node(2), node(3, C)], table((1, 2, 3), (A, "10.0.0.1"), (C, "10.0.0.3")), CLUSTER
    )
    assert plan.bare == ("n1",)


@pytest.mark.parametrize("gateway", ["10.0.0.2", "10.0.0.7", "10.0.0.99"], ids=["node", "other", "unused"])
@pytest.mark.parametrize("outside", ["10.99.1.0/24", "192.168.0.0/16", "10.0.0.0/8"])
def test_outside_of_the_ranges_of_pods_nothing_is_made_or_replaced(outside: str, gateway: str) -> None:
    """A kubelet says the range: the route may be that of a VPN, for all servers of the network."""
    nodes = [node(1, outside), node(2, B)]
    for present in ([(outside, gateway)], []):
        plan = plan_routes(nodes, table((1, 2, 7), *present), CLUSTER)
        assert (deleted(plan), created(plan)) == ([], [(B, "10.0.0.2")])
        assert plan.outside == {"n1": (outside,)}
        assert plan.specs[0].problem


def test_outside_of_the_ranges_of_pods_the_right_route_is_all_right() -> None:
    """The official CCM made it."""
    plan = plan_routes([node(1, "10.99.1.0/24")], table((1,), ("10.99.1.0/24", "10.0.0.1")), CLUSTER)
    assert not plan.changes
    assert not plan.problems
    assert plan.outside == {"n1": ("10.99.1.0/24",)}


def test_nothing_is_replaced_where_the_right_route_can_not_be_made() -> None:
    in_the_way = table((2, 7), (A, "10.0.0.7"))
    assert deleted(plan_routes(TWO, in_the_way, CLUSTER)) == [], (
        "the machine of the node is not in the network"
    )
    elsewhere = replace(node(1, A), internal_ips=("192.168.7.1",))
    plan = plan_routes([elsewhere, node(2, B)], table((1, 2, 7), (A, "10.0.0.7")), CLUSTER)
    assert deleted(plan) == []
    [problem] = [spec.problem for spec in plan.specs if spec.problem]
    assert "address 10.0.0.1 in the network" in problem
    assert plan.specs[0] == RouteSpec("n1", A, problem=problem)


def test_the_default_route_is_no_pod_cidr() -> None:
    default = "0.0.0.0/0"
    nodes = [node(1, default), node(2, B)]
    for present in ([(default, "10.0.0.7")], []):
        plan = plan_routes(nodes, table((1, 2, 7), *present), CLUSTER)
        assert (deleted(plan), created(plan)) == ([], [(B, "10.0.0.2")])
        problem = "this CIDR is the default route of the network, and not a pod CIDR"
        assert plan.specs[0] == RouteSpec("n1", default, problem=problem)


@pytest.mark.parametrize("names", [("old", "young"), ("young", "old")])
def test_of_two_nodes_of_one_machine_the_older_one_gets_a_route(names: tuple[str, str]) -> None:
    nodes = [
        replace(node(1, cidr, name=name), created=len(name)) for cidr, name in zip((A, B), names, strict=True)
    ]
    old = A if names[0] == "old" else B
    plan = plan_routes(nodes, table((1,)), CLUSTER)
    assert created(plan) == [(old, "10.0.0.1")]
    assert problems(plan) == {"young": "node old has the same provider ID"}
    both = plan_routes(nodes, table((1,), (A, "10.0.0.1"), (B, "10.0.0.1")), CLUSTER)
    assert not both.changes, "what is there stays"
    assert not both.problems


def test_a_range_is_the_nodes_whose_route_is_there() -> None:
    """Whatever the names, and whichever Node is older."""
    plan = plan_routes([node(1, A), replace(node(2, A), created=1)], table((1, 2), (A, "10.0.0.2")), CLUSTER)
    assert not plan.changes
    assert problems(plan) == {"n1": "node n2 has the same pod CIDR"}


@pytest.mark.parametrize(
    ("claimed", "problem"),
    [
        (B, "node n2 has the same pod CIDR"),
        ("10.244.2.0/25", f"node n2 has an overlapping pod CIDR, {B}"),
        ("10.244.2.128/32", f"node n2 has an overlapping pod CIDR, {B}"),
        ("10.244.0.0/16", f"node n2 has an overlapping pod CIDR, {B}"),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_an_invented_node_takes_no_range_of_another(claimed: str, problem: str, is_there: bool) -> None:
    nodes = [replace(node(1, claimed, name="aaa"), created=9), replace(node(2, B), created=5)]
    world = table((1, 2), *([(B, "10.0.0.2")] if is_there else []))
    plan = plan_routes(nodes, world, CLUSTER)
    assert (deleted(plan), created(plan)) == ([], [] if is_there else [(B, "10.0.0.2")])
    assert problems(plan) == {"aaa": problem}


def test_a_machine_is_a_nodes_only_if_the_cloud_says_so() -> None:
    nodes = [node(7, C, name="aaa"), node(2, B)]
    world = for_nodes(table((2, 7)), {2: "N2", 7: "vpn"})
    plan = plan_routes(nodes, world, CLUSTER)
    assert created(plan) == [(B, "10.0.0.2")]
    assert problems(plan) == {
        "aaa": "the node has the provider ID of machine server-7, "
        "but this machine belongs to the node named vpn"
    }
    there = replace(world, routes=(Route(C, "10.0.0.7"), Route(B, "10.0.0.2")))
    assert not plan_routes(nodes, there, CLUSTER).problems, "such a route that is there is all right"


def test_an_invented_node_makes_no_machine_ours() -> None:
    """Routes to it are somebody else's, though a Node says, or said, that it is its machine."""
    world = for_nodes(table((2, 7), (A, "10.0.0.7"), (B, "10.0.0.2")), {2: "n2", 7: "vpn"})
    invented = node(7, C, name="aaa")
    assert deleted(plan_routes([invented, node(2, B)], world, CLUSTER)) == []
    assert deleted(plan_routes([node(2, B)], world, CLUSTER, former=[invented])) == []
    assert deleted(plan_routes([node(2, B)], world, CLUSTER, former=[node(7, C, name="vpn")])) == [
        (A, "10.0.0.7")
    ]


def test_a_route_that_comes_back_is_reported_and_left() -> None:
    world = table((1, 2, 7), (A, "10.0.0.7"), (B, "10.0.0.2"))
    plan = plan_routes(TWO, world, CLUSTER, disputed=[Route(A, "10.0.0.7")])
    assert not plan.changes
    problem = (
        "the network already routes this pod CIDR to 10.0.0.7. This address belongs to machine server-7, "
        "not to the machine of this node. If the existing route is wrong, delete the route"
    )
    assert plan.specs[0] == RouteSpec("n1", A, problem=problem)


def test_a_name_that_is_not_one_machines_alone_finds_none() -> None:
    unknown = RouteNode("server-1", "", (A,), ("10.0.0.1",))
    assert plan_routes([unknown], table((2,)), CLUSTER).specs == ()
    assert len(plan_routes([unknown, node(1, B)], table((1,)), CLUSTER).specs) == 1, "it is another node's"
    namesakes = table((1, 2))
    twins = {address: replace(machine, name="server-1") for address, machine in namesakes.machines.items()}
    assert plan_routes([unknown], replace(namesakes, machines=twins), CLUSTER).specs == ()


def test_the_same_cidr_in_two_nodes_is_reported() -> None:
    plan = plan_routes([node(1, A), node(2, A, B)], table((1, 2)), CLUSTER)
    assert created(plan) == [(A, "10.0.0.1"), (B, "10.0.0.2")], "its other one is made all the same"
    assert plan.specs[1] == RouteSpec("n2", A, problem="node n1 has the same pod CIDR")


def test_an_incomplete_picture_deletes_nothing_but_creates() -> None:
    plan = plan_routes(TWO, table((1, 2), (C, "10.0.0.9"), complete=False), CLUSTER)
    assert deleted(plan) == []
    assert [route.destination for route in plan.held_back] == [C]
    assert len(plan.creations) == 2


@pytest.mark.parametrize("machines", [(), (99,)], ids=["none", "strangers only"])
def test_a_picture_without_our_machines_deletes_nothing(machines: tuple[int, ...]) -> None:
    plan = plan_routes(TWO, table(machines, (A, "10.0.0.1"), (B, "10.0.0.2")), CLUSTER)
    assert deleted(plan) == []
    assert len(plan.held_back) == 2


def test_the_owner_may_say_that_it_is_true_but_not_that_half_a_list_is_whole() -> None:
    routes = [(A, "10.0.0.1"), (B, "10.0.0.2")]
    assert deleted(plan_routes(TWO, table((), *routes), CLUSTER, mass_deletion_breaker=False)) == routes
    plan = plan_routes(TWO, table((), *routes, complete=False), CLUSTER, mass_deletion_breaker=False)
    assert deleted(plan) == []
    assert len(plan.held_back) == 2


@pytest.mark.parametrize(
    ("nodes", "gone", "believed"),
    [(2, 1, True), (2, 2, False), (3, 2, True), (4, 2, True), (4, 3, False), (6, 3, True), (6, 4, False)],
)
def test_two_machines_may_be_gone_or_half_of_them_but_not_all(nodes: int, gone: int, believed: bool) -> None:
    routes = [(f"10.244.{n}.0/24", f"10.0.0.{n}") for n in range(1, nodes + 1)]
    plan = plan_routes(
        [node(n, destination) for n, (destination, _) in enumerate(routes, 1)],
        table(tuple(range(gone + 1, nodes + 1)), *routes),
        CLUSTER,
    )
    assert deleted(plan) == (routes[:gone] if believed else [])
    assert len(plan.held_back) == (0 if believed else gone)


def test_unroutable_cidrs_are_reported_and_hinder_nothing() -> None:
    plan = plan_routes([node(1, "fd00:0:0:1::/64", "nonsense", A)], table((1,)), CLUSTER)
    assert plan.unroutable == {"n1": ("fd00:0:0:1::/64", "nonsense")}
    assert created(plan) == [(A, "10.0.0.1")]


@pytest.mark.parametrize("text", ["10.244.1.0/24", "10.244.1.9/24", "10.244.001.000/24"])
def test_a_cidr_is_the_same_however_it_is_written(text: str) -> None:
    assert canonical(text) == A
    assert created(plan_routes([node(1, text)], table((1,)), CLUSTER)) == [(A, "10.0.0.1")]
    assert not plan_routes([node(1, A)], table((1,), (text, "10.0.0.1")), CLUSTER).changes


@pytest.mark.parametrize("cluster", ["10.244.0.0/16", "10.245.0.0/16"])
def test_a_pod_cidr_partly_outside_is_reported(cluster: str) -> None:
    plan = plan_routes([node(1, "10.244.0.0/15")], table((1,)), (ip_network(cluster),))
    assert plan.outside == {"n1": ("10.244.0.0/15",)}


@pytest.mark.parametrize(
    ("cluster", "destination", "responsible"),
    [
        ("10.244.0.0/16", "10.244.0.0/24", True), ("10.244.0.0/16", "10.244.10.0/24", True),
        ("10.244.0.0/16", "10.244.255.0/24", True), ("10.244.0.0/14", "10.244.0.0/24", True),
        ("10.244.0.0/14", "10.247.255.0/24", True), ("10.244.0.0/14", "10.248.0.0/24", False),
        ("10.244.0.0/14", "10.243.255.0/24", False), ("10.244.0.0/16", "10.224.0.0/24", False),
        ("10.244.0.0/16", "10.0.10.0/24", False), ("10.244.0.0/16", "10.255.255.0/24", False),
        ("a00:100::/10", "a00:100::/24", True), ("a00:100::/10", "b00:100::/24", False),
        ("10.244.0.0/16", "10.244.0.0/15", True), ("10.245.0.0/16", "10.244.0.0/15", True),
        ("10.244.0.0/16", "a00:100::/24", False), ("10.244.0.0/16", "nonsense", False),
    ],
)  # fmt: skip
def test_responsibility(cluster: str, destination: str, responsible: bool) -> None:
    assert is_responsible(destination, (ip_network(cluster, strict=False),)) is responsible


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", "required for routes"), ("10.0.0.0/33", "'10.0.0.0/33' isn't a CIDR"),
     ("10.0.0.0/8,10.1.0.0/16", "at most one IPv4 range"),
     ("10.0.0.0/8,fd00::/48,fd01::/48", "at most one IPv4 range"),
     ("a,b", "'a' isn't a CIDR like 10.244.0.0/16; --cluster-cidr: 'b' isn't a CIDR")],
)  # fmt: skip
def test_wrong_cluster_cidrs(text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_cluster_cidrs(text)
    assert expected in "; ".join(error.value.problems)


numbers = st.integers(1, 8)
cidrs = st.builds("10.{}.{}.0/24".format, st.sampled_from([244, 244, 99]), numbers)
destinations = st.one_of(
    cidrs, st.sampled_from(["10.1.0.0/24", "10.244.0.0/20", "192.168.0.0/16", "10.244.64.0/18"])
)
gateways = st.integers(1, 12).map(lambda n: f"10.0.0.{n}")
some_routes = st.lists(st.tuples(destinations, gateways), unique_by=lambda route: route[0], max_size=8)
# Several Nodes may say that they are the same machine, and a Node may have the CIDR of another.
some_nodes = st.dictionaries(numbers, st.tuples(numbers, cidrs), max_size=6).map(
    lambda chosen: [node(machine, cidr, name=f"n{one}") for one, (machine, cidr) in sorted(chosen.items())]
)
machine_sets = st.sets(st.integers(1, 12)).map(lambda chosen: tuple(sorted(chosen)))


def carry_out(plan: RoutePlan, world: RouteTable) -> RouteTable:
    kept = tuple(route for route in world.routes if route not in plan.deletions)
    return replace(
        world, routes=(*kept, *(route_spec.route for route_spec in plan.creations if route_spec.route))
    )


@given(nodes=some_nodes, machines=machine_sets, routes=some_routes, former=st.sets(numbers))
def test_carrying_out_a_plan_leaves_nothing_to_do(nodes, machines, routes, former) -> None:
    world = table(machines, *routes)
    known = [node(number) for number in former]
    plan = plan_routes(nodes, world, CLUSTER, known)
    after = carry_out(plan, world)
    again = plan_routes(nodes, after, CLUSTER, known)
    assert not again.creations
    assert not again.deletions
    for found in again.specs:
        assert found.problem or (found.present and found.node and found.route in after.routes)
        assert found.problem or found.destination in {route.destination for route in after.routes}
    assert len({route.destination for route in after.routes}) == len(after.routes)


@given(nodes=some_nodes, machines=machine_sets, routes=some_routes, complete=st.booleans())
def test_nothing_foreign_is_ever_deleted(nodes, machines, routes, complete: bool) -> None:
    world = table(machines, *routes, complete=complete)
    ours = {one.provider_id for one in nodes}
    needed = {(one.provider_id, cidr) for one in nodes for cidr in one.pod_cidrs}
    plan = plan_routes(nodes, world, CLUSTER)
    assert complete or not plan.deletions
    replaced = {destination for destination, _ in created(plan)}
    for route in plan.deletions:
        machine = world.machines.get(route.gateway)
        assert machine is None or (machine.provider_id, route.destination) not in needed
        if route.destination not in replaced:
            assert is_responsible(route.destination, CLUSTER)
            assert machine is None or machine.provider_id in ours
