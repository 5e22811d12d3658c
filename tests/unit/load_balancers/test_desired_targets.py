from typing import Any

import pytest
from desired_cases import LARGE, OURS, SELECTOR, SMALL, balancer, observed, said, server, spec

from ccm.cloud import AccessDenied, Notice
from ccm.hetzner.api.models import (
    LoadBalancer,
    LoadBalancerPublicNet,
    PrivateNet,
    PublicAddress,
    Server,
    ServerPublicNet,
)
from ccm.hetzner.load_balancers.desired.desired_state import DesiredState
from ccm.hetzner.load_balancers.desired.target_choice import choose_targets
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.targets import Candidates, Target

NO_TRAFFIC = "These nodes get no traffic from the load balancer, because "
SERVERS = {
    number: Server(
        number,
        f"n{number}",
        public_net=ServerPublicNet(PublicAddress(f"203.0.113.{number}")),
        private_net=(PrivateNet(1, f"10.0.0.{number}"),),
    )
    for number in range(1, 6)
}


def nodes(*targets: Target, **more: Any) -> Candidates:
    """Nodes a, b, c, …"""
    return Candidates(dict(zip("abcdefgh", targets, strict=False)), **more)


def some(candidates: Candidates, there: LoadBalancer | None = None, **more: Any) -> ObservedState:
    usual = {"servers": SERVERS, "network": 1, "nodes": 9, "selected": 9}
    return observed(there, candidates=candidates, **{**usual, **more})


def test_all_for_which_there_is_room() -> None:
    three = tuple(Target(number) for number in (3, 1, 2))
    assert choose_targets(spec(), some(nodes(*three)), SMALL) == DesiredState(
        "", {}, targets=(Target(1), Target(2), Target(3)), reachable=frozenset(SERVERS)
    )
    five = nodes(*(Target(number) for number in (5, 4, 3, 2, 1)))
    found = choose_targets(spec(), some(five), SMALL)
    assert found.targets == (Target(3), Target(4), Target(5))
    assert said(found.notices) == [
        (
            "MaxTargetsReached",
            (
                f"{NO_TRAFFIC}the load balancer's type supports no more targets. Choose a larger type with "
                "load-balancer.hetzner.cloud/type, or select fewer nodes with "
                "load-balancer.hetzner.cloud/node-selector: d, e"
            ),
        )
    ]
    assert choose_targets(spec(), some(five), LARGE).notices == ()


def test_what_is_a_target_stays_one_on_either_side() -> None:
    five = nodes(*(Target(number, private=True) for number in (1, 2, 3, 4, 5)))
    there = balancer(targets=(server(5), server(4, private=True), SELECTOR))
    found = choose_targets(spec(), some(five, there), SMALL)
    assert found.targets == (Target(4, private=True), Target(5, private=True))
    assert found.notices[0].message.endswith(": a, b, c")


@pytest.mark.parametrize(
    ("target", "reason", "why"),
    [
        (Target(77), "ServerNotFound", "their servers don't exist in this project"),
        (Target(6, private=True), "ServerNotInNetwork", "the servers of the nodes are not in the private"),
        (Target(6), "PublicIPv4Missing", "their servers have no public IPv4 address"),
        (Target(7), "PublicIPv4Missing", "their servers have no public IPv4 address"),
    ],
)
def test_what_is_in_the_way(target: Target, reason: str, why: str) -> None:
    bare = {
        6: Server(6, "n6", public_net=ServerPublicNet(None)),
        7: Server(7, "n7", public_net=ServerPublicNet(PublicAddress(""))),
    }
    good = Target(1, private=True)
    there = some(nodes(target, good, target), servers={**SERVERS, **bare})
    found = choose_targets(spec(), there, SMALL)
    assert found.targets == (good,)
    [(found_reason, text)] = said(found.notices)
    assert (found_reason, text.startswith(NO_TRAFFIC + why), text[-6:]) == (reason, True, ": a, c")
    assert found.reachable == frozenset(SERVERS)
    present = balancer(targets=(server(target.server, private=target.private),))
    kept = choose_targets(spec(), some(nodes(target), present, servers={**SERVERS, **bare}), SMALL)
    assert (kept.targets, kept.notices) == ((target,), ()), (
        "what works is not taken away for what is not known"
    )


CLOSED = LoadBalancerPublicNet(False)


@pytest.mark.parametrize(
    ("annotations", "there", "reached"),
    [
        ({"disable-public-network": "true"}, None, False),
        ({}, None, True),
        ({"disable-public-network": "true"}, balancer(), True),  # it is closed once all targets are private
        ({"disable-public-network": "true"}, balancer(public_net=CLOSED), False),
        ({}, balancer(public_net=CLOSED), False),
        ({"disable-public-network": "false"}, balancer(public_net=CLOSED), True),
        ({}, balancer({f"{OURS}annotated": "public"}, public_net=CLOSED), True),  # its default comes back
    ],
)
def test_public_targets_need_it(
    annotations: dict[str, str], there: LoadBalancer | None, *, reached: bool
) -> None:
    found = choose_targets(spec(annotations), some(nodes(Target(1), Target(2, private=True)), there), SMALL)
    assert found.targets == ((Target(1), Target(2, private=True)) if reached else (Target(2, private=True),))
    assert [notice.reason for notice in found.notices] == ([] if reached else ["PublicInterfaceDisabled"])


def test_of_dedicated_servers_too() -> None:
    robots = nodes(Target(ip="198.51.100.1"), Target(ip="172.16.0.1"))
    found = choose_targets(spec({"disable-public-network": "true"}), some(robots), SMALL)
    assert found.targets == (Target(ip="172.16.0.1"),)
    assert said(found.notices)[0][0] == "PublicInterfaceDisabled"


def test_who_does_not_lead_opens_no_public_interface() -> None:
    there = some(nodes(Target(1)), balancer(public_net=CLOSED), is_owner=False)
    found = choose_targets(spec({"disable-public-network": "false"}), there, SMALL)
    assert [notice.reason for notice in found.notices] == ["PublicInterfaceDisabled"]


def test_addresses_of_dedicated_servers_need_no_server() -> None:
    address = Target(ip="198.51.100.1")
    assert choose_targets(spec(), some(nodes(address), servers={}), SMALL).targets == (address,)


def test_what_others_added_counts_and_stays() -> None:
    there = balancer(targets=(server(8), server(9), server(1)))
    preserve = spec({"preserve-foreign": "true"})
    mine = frozenset({(1, ""), (2, "")})
    found = choose_targets(preserve, some(nodes(Target(1), Target(2)), there, ours=mine), SMALL)
    assert (found.targets, found.foreign_targets) == ((Target(1),), {(8, ""), (9, "")})
    assert said(found.notices)[0][0] == "MaxTargetsReached"
    found = choose_targets(spec(), some(nodes(Target(1), Target(2)), there, ours=mine), SMALL)
    assert (found.targets, found.foreign_targets) == ((Target(1), Target(2)), frozenset())
    crowded = balancer(targets=(SELECTOR,) * 4)
    assert choose_targets(preserve, some(nodes(Target(1)), crowded), SMALL).targets == ()


def test_a_service_that_owns_nothing_decides_nothing() -> None:
    there = balancer(targets=(server(9),))
    found = choose_targets(spec(), some(nodes(Target(77), Target(1)), there, is_owner=False), SMALL)
    assert found == DesiredState("", {}, notices=found.notices)
    assert [reason for reason, _ in said(found.notices)] == ["ServerNotFound"]


def test_nodes_that_are_no_targets_are_reported() -> None:
    odd = nodes(Target(1), left_out={"RobotNotEnabled": ("x", "y"), "ServerNotFound": ("z",)}, public=("a",))
    found = choose_targets(
        spec(), some(Candidates({**odd.by_node, "q": Target(77)}, odd.left_out, odd.public)), SMALL
    )
    assert said(found.notices) == [
        (
            "RobotNotEnabled",
            f"{NO_TRAFFIC}the nodes are dedicated servers, and ROBOT_ENABLED is not set: x, y",
        ),
        ("ServerNotFound", f"{NO_TRAFFIC}their servers don't exist in this project: z, q"),
        (
            "InternalIPNotConfigured",
            (
                "These nodes get traffic through their public addresses, because "
                "the nodes have no internal IPv4 address: a"
            ),
        ),
    ]


def test_a_selector_that_matches_nothing() -> None:
    found = choose_targets(spec(), some(nodes(), nodes=3, selected=0), SMALL)
    text = f"{PREFIX}node-selector selects none of the 3 nodes, so the load balancer has no targets"
    assert said(found.notices) == [("NodeSelectorMatchesNothing", text)]
    assert choose_targets(spec(), some(nodes(), nodes=0, selected=0), SMALL).notices == ()


@pytest.mark.parametrize(
    ("candidates", "more"),
    [
        (nodes(left_out={"UnknownProviderIDPrefix": ("a", "b")}), {}),
        (nodes(), {"selected": 0}),
        (nodes(), {"nodes": 0, "selected": 0}),
        (nodes(Target(77), Target(78)), {}),
        (nodes(Target(1, private=True), Target(2, private=True)), {"network": 5}),
    ],
    ids=["prefix", "selector", "no nodes", "project", "network"],
)
def test_targets_stay_while_no_node_can_be_one(candidates: Candidates, more: dict[str, Any]) -> None:
    there = balancer(targets=(server(3), server(1), SELECTOR))
    scope = some(candidates, there, **more)
    found = choose_targets(spec(), scope, SMALL)
    assert (found.targets, found.keeps_targets) == ((Target(1), Target(3)), True)
    assert "LoadBalancerTargetsKept" in {notice.reason for notice in found.notices}
    excluded = choose_targets(spec(fields={"hosts_excluded": True}), scope, SMALL)
    assert (excluded.targets, excluded.keeps_targets) == ((), False), "a person took all Nodes out"
    first = choose_targets(spec(), some(nodes(Target(2)), there), SMALL)
    assert (first.targets, first.keeps_targets) == ((Target(2),), False), "one that can be will do"


def test_none_is_made_in_a_project_without_any_of_the_servers() -> None:
    strangers = nodes(Target(77), Target(78))
    with pytest.raises(AccessDenied) as refused:
        choose_targets(spec(), some(strangers), SMALL)
    text = (
        "the cluster has 9 nodes, but none of their servers is in this project. The token probably belongs "
        "to another project, so no load balancer is created"
    )
    assert str(refused.value) == text
    assert refused.value.notices == (Notice("WrongProject", text),)
    assert choose_targets(spec(), some(strangers, balancer()), SMALL).targets == ()
    assert choose_targets(spec(), some(nodes(Target(77), Target(1))), SMALL).targets == (Target(1),)
    assert choose_targets(spec(), some(nodes()), SMALL).targets == ()
