from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.cloud import Address, NodeView
from ccm.hetzner.api.models import (
    LoadBalancer,
    LoadBalancerTarget,
    PublicAddress,
    Server,
    ServerPublicNet,
    TargetIp,
    TargetServer,
)
from ccm.hetzner.load_balancers.desired.target_choice import settle
from ccm.hetzner.load_balancers.targets import Candidates, Target, candidates, target_of, targets_of

SCHEME = "hcloud://"


def robot(*addresses: tuple[str, str], provider_id: str = "hrobot://7") -> NodeView:
    return NodeView("robot", provider_id, addresses=tuple(Address(kind, text) for kind, text in addresses))


PUBLIC, INTERNAL = ("ExternalIP", "198.51.100.7"), ("InternalIP", "10.1.0.7")
ONLY_IPV6 = robot(("ExternalIP", "2001:db8::7"))  # as with the address family ipv6


@pytest.mark.parametrize(
    ("node", "more", "target"),
    [
        (NodeView("a", "hcloud://5"), {}, Target(server=5)),
        (NodeView("a", "hcloud://5"), {"private": True}, Target(server=5, private=True)),
        (NodeView("a", "hcloud://9223372036854775807"), {}, Target(server=9223372036854775807)),
        (robot(PUBLIC), {}, Target(ip="198.51.100.7")),
        (robot(PUBLIC, provider_id="hcloud://bm-7"), {}, Target(ip="198.51.100.7")),
        (robot(PUBLIC, INTERNAL), {"private": True}, Target(ip="10.1.0.7")),
        (robot(("InternalIP", "fd00::7"), INTERNAL), {"private": True}, Target(ip="10.1.0.7")),
        (robot(PUBLIC), {"private": True}, Target(ip="198.51.100.7")),
        (ONLY_IPV6, {"robots": {7: "198.51.100.7", 8: "198.51.100.8"}}, Target(ip="198.51.100.7")),
    ],
)
def test_what_a_node_is(node: NodeView, more: dict[str, Any], target: Target) -> None:
    found = candidates([node], SCHEME, **{"private": False, **more})
    assert (list(found.by_node.values()), found.left_out) == ([target], {})
    is_public = "private" in more and target.ip == "198.51.100.7"
    assert found.public == (("robot",) if is_public else ())


def test_all_but_some_nodes_and_why() -> None:
    a, b = Target(server=1), Target(server=2)
    some = Candidates({"a": a, "b": b}, {"Old": ("c",)}, ("a", "b"))
    assert some.without({"b", "x"}, "New") == Candidates({"a": a}, {"Old": ("c",), "New": ("b",)}, ("a",))
    assert some.without({"x"}, "New") == some


@pytest.mark.parametrize(
    ("node", "more", "reason"),
    [
        *(
            (NodeView("a", text), {}, "UnknownProviderIDPrefix")
            for text in ("aws:///e/i-1", "hcloud://", "hcloud://x")
        ),
        (ONLY_IPV6, {}, "InternalIPNotConfigured"),
        (robot(), {}, "InternalIPNotConfigured"),
        (robot(PUBLIC, INTERNAL), {"private": True, "robots": None}, "RobotNotEnabled"),
    ],
)
def test_what_a_node_is_not(node: NodeView, more: dict[str, Any], reason: str) -> None:
    found = candidates([node], SCHEME, **{"private": False, **more})
    assert (dict(found.by_node), dict(found.left_out)) == ({}, {reason: (node.name,)})


def test_a_cloud_server_and_a_robot_server_of_the_same_number_are_two() -> None:
    nodes = [NodeView("a", "hcloud://7"), robot(("ExternalIP", "198.51.100.7"))]
    assert len(candidates(nodes, SCHEME, private=False).by_node) == 2
    assert len({str(Target(server=1)), str(Target(server=2)), str(Target(ip="a")), str(Target(ip="b"))}) == 4


def test_one_node_that_can_be_none_hinders_no_other() -> None:
    nodes = [
        NodeView("a", ""),
        NodeView("b", "aws:///eu/i-1"),
        NodeView("c", "hcloud://x"),
        NodeView("d", "hcloud://5"),
    ]
    found = candidates(nodes, SCHEME, private=False)
    assert dict(found.by_node) == {"d": Target(server=5)}
    assert dict(found.left_out) == {"UnknownProviderIDPrefix": ("b", "c")}


def test_those_of_some_nodes() -> None:
    everyone = Candidates(
        {"a": Target(server=1), "b": Target(server=2)},
        {"RobotNotEnabled": ("c", "d"), "UnknownProviderIDPrefix": ("e",)},
        ("a", "b"),
    )
    some = Candidates({"b": Target(server=2)}, {"RobotNotEnabled": ("d",)}, ("b",))
    assert everyone.only({"b", "d", "f"}) == some


def actual(kind: str, *, number: int | None = None, ip: str | None = None) -> LoadBalancerTarget:
    return LoadBalancerTarget(
        type=kind,
        server=None if number is None else TargetServer(id=number),
        ip=None if ip is None else TargetIp(ip=ip),
        use_private_ip=number is not None,
    )


def test_what_a_load_balancers_target_is() -> None:
    assert target_of(actual("server", number=5)) == Target(server=5, private=True)
    assert target_of(actual("ip", ip="198.51.100.7")) == Target(ip="198.51.100.7")
    assert target_of(actual("label_selector")) is None
    assert target_of(actual("something new", number=5)) is None, "what we don't know is left alone"
    assert target_of(actual("something new", ip="198.51.100.7")) is None
    assert target_of(actual("server")) is None
    assert target_of(actual("ip")) is None
    balancer = LoadBalancer(1, "web", targets=(actual("server", number=5), actual("label_selector")))
    assert targets_of(balancer) == {Target(server=5, private=True)}
    assert targets_of(None) == frozenset()


def server(number: int) -> Server:
    return Server(
        id=number, name=f"s{number}", public_net=ServerPublicNet(ipv4=PublicAddress(ip="203.0.113.1"))
    )


@given(
    st.permutations(range(1, 13)),
    st.sets(st.integers(1, 12)),
    st.sets(st.integers(1, 12)),
    st.integers(0, 13),
)
def test_the_choice(order: list[int], present: set[int], deleted: set[int], limit: int) -> None:
    """Whatever the order: as many as fit, those that are targets already first, everybody else named."""
    gone = deleted - present
    wanted = Candidates({f"n{number:02}": Target(server=number) for number in order}, {})
    now = {Target(server=number) for number in present}
    find = {number: server(number) for number in order if number not in gone}.get
    chosen, notices = settle(wanted, now, find, network=None, limit=limit)
    possible = sorted((number not in present, number) for number in order if number not in gone)
    assert {one.server for one in chosen} == {number for _, number in possible[:limit]}
    names_by_reason = {notice.reason: notice.message.rpartition(": ")[2] for notice in notices}
    assert names_by_reason.get("MaxTargetsReached", "") == ", ".join(
        f"n{number:02}" for number in sorted(number for _, number in possible[limit:])
    )
    assert names_by_reason.get("ServerNotFound", "").count("n") == len(gone)


@pytest.mark.parametrize(
    ("public", "limit", "reason"),
    [
        (True, 1, "InternalIPNotConfigured"),
        (True, 0, "MaxTargetsReached"),
        (False, 1, "PublicInterfaceDisabled"),
    ],
)
def test_who_gets_no_traffic_is_not_said_to_get_some(limit: int, reason: str, *, public: bool) -> None:
    wanted = candidates([robot(("ExternalIP", "198.51.100.7"))], SCHEME, private=True)
    _, notices = settle(wanted, (), {}.get, network=None, limit=limit, public=public)
    assert [notice.reason for notice in notices] == [reason]
