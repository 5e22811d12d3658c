from dataclasses import replace
from typing import Any

import msgspec
from desired_cases import LARGE, SELECTOR, SMALL, server

from ccm.hetzner.api.models import (
    Algorithm,
    LoadBalancer,
    LoadBalancerPublicNet,
    LoadBalancerService,
    LoadBalancerTarget,
    PrivateNet,
    Protection,
    PublicAddress,
    ServiceHttp,
    TargetIp,
)
from ccm.hetzner.load_balancers.desired.desired_state import DesiredState
from ccm.hetzner.load_balancers.plan.planner import changes
from ccm.hetzner.load_balancers.plan.steps import Key
from ccm.hetzner.load_balancers.targets import Target

FIELD, PORT = "ccm-from-scratch/annotated-", "ccm-from-scratch/port-"
DESIRED = DesiredState("shop", {"a": "1"})


def listener(
    port: int, protocol: str = "tcp", *, redirects: bool = False, **more: Any
) -> LoadBalancerService:
    http = ServiceHttp(certificates=(1,), redirect_http=redirects) if protocol != "tcp" else None
    return LoadBalancerService(protocol, port, 30_000 + port, http=http, **more)


def actual(**more: Any) -> LoadBalancer:
    usual = LoadBalancer(
        7,
        "shop",
        public_net=LoadBalancerPublicNet(True, PublicAddress("203.0.113.1", "x.example")),
        load_balancer_type=SMALL,
        labels={"a": "1"},
    )
    return msgspec.structs.replace(usual, **more)


def planned(desired: DesiredState, present: LoadBalancer) -> list[tuple[Key, set[Key]]]:
    """The keys of the changes, each with those that it needs."""
    return [(change.key, set(change.needs)) for change in changes(desired, present)]


def keys(desired: DesiredState, present: LoadBalancer) -> list[Key]:
    return [key for key, _ in planned(desired, present)]


def wanted(**more: Any) -> DesiredState:
    return replace(DESIRED, **more)


class TestNameAndLabels:
    def test_labels_say_whose_it_is_before_it_is_renamed(self) -> None:
        """For the new name may be taken."""
        assert planned(wanted(name="new", labels={"b": "2"}), actual()) == [
            (("update", "labels"), set()),
            (("update", "name"), set()),
        ]
        assert planned(wanted(name="new"), actual()) == [(("update", "name"), set())]
        [label, rename] = changes(wanted(name="new", labels={"b": "2"}), actual())
        assert label.body == {"labels": {"b": "2"}}
        assert rename.body == {"labels": {"b": "2"}, "name": "new"}

    def test_a_name_that_goes_back_goes_with_the_label_that_remembers_it(self) -> None:
        [change] = changes(wanted(name="new", labels={}, resets=frozenset({"name"})), actual())
        assert change.body == {"labels": {}, "name": "new"}
        assert keys(wanted(labels={}, resets=frozenset({"name"})), actual()) == [("update", "labels")]

    def test_labels_wait_for_what_goes_back_to_its_default(self) -> None:
        desired = wanted(
            labels={},
            name="new",
            type=LARGE,
            public=True,
            settings={"algorithm": "round_robin", "protection": False},
            rdns={"ipv4": None, "ipv6": "six.example"},
            resets=frozenset({"type", "algorithm", "public", "protection", "ipv4"}),
        )
        net = LoadBalancerPublicNet(False, PublicAddress("203.0.113.1", "x"), PublicAddress("2001:db8::1"))
        there = actual(public_net=net, protection=Protection(True), algorithm=Algorithm("least_connections"))
        back = [
            ("change_type", "type"),
            ("change_dns_ptr", "ipv4"),
            ("enable_public_interface", "public"),
            ("change_algorithm", "algorithm"),
            ("change_protection", "protection"),
        ]
        assert planned(desired, there) == [
            *((key, set()) for key in back),
            (("update", "labels"), set(back)),
            (("update", "name"), set(back)),
            (("change_dns_ptr", "ipv6"), set()),
        ]
        assert planned(replace(desired, resets=frozenset({"name", "protection"})), there)[:2] == [
            (("change_protection", "protection"), set()),
            (("update", "name"), {("change_protection", "protection")}),
        ]

    def test_without_a_reset_they_do_not_wait(self) -> None:
        settings = {"algorithm": "least_connections", "protection": True}
        desired = wanted(labels={}, type=LARGE, public=False, settings=settings)
        assert planned(desired, actual()) == [
            (("update", "labels"), set()),
            (("change_type", "type"), set()),
            (("change_algorithm", "algorithm"), set()),
            (("disable_public_interface", "public"), set()),
            (("change_protection", "protection"), set()),
        ]

    def test_a_listeners_owner_is_remembered_until_it_has_gone(self) -> None:
        labels = {"a": "1", f"{PORT}80": "uid", f"{PORT}443": "uid", f"{FIELD}interval": ""}
        there = actual(labels=labels, services=(listener(80), listener(443)))
        desired = wanted(labels={"a": "2"}, foreign_ports=frozenset({443}))
        assert planned(desired, there) == [
            (("update", "labels"), set()),
            (("delete_service", 80), set()),
            (("update", "old labels"), {("delete_service", 80)}),
        ]
        first, _, last = changes(desired, there)
        assert first.body == {"labels": {"a": "2", f"{PORT}80": "uid"}}
        assert last.body == {"labels": {"a": "2"}}

    def test_what_was_annotated_is_remembered_until_the_listeners_have_changed(self) -> None:
        labels = {"a": "1", f"{PORT}80": "uid", f"{FIELD}interval": "", f"{FIELD}timeout": ""}
        there = actual(labels=labels, services=(listener(80, proxyprotocol=True),))
        desired = wanted(labels={"a": "1", f"{FIELD}timeout": "x"}, listeners=(listener(80),))
        assert planned(desired, there) == [
            (("update", "labels"), set()),
            (("update_service", 80), set()),
            (("update", "old labels"), {("update_service", 80)}),
        ]
        first, _, last = changes(desired, there)
        assert first.body == {"labels": {"a": "1", f"{FIELD}timeout": "x", f"{FIELD}interval": ""}}
        assert last.body == {"labels": dict(desired.labels)}

    def test_both_are_remembered(self) -> None:
        labels = {f"{PORT}80": "uid", f"{FIELD}interval": ""}
        there = actual(labels=labels, services=(listener(80), listener(443, proxyprotocol=True)))
        first, *_, last = changes(wanted(labels={}, listeners=(listener(443),)), there)
        assert first.operation == "delete_service", "all labels stay until the end"
        assert last.body == {"labels": {}}
        assert last.needs == {("delete_service", 80), ("update_service", 443)}


class TestType:
    def test_a_smaller_one_waits_until_what_is_too_much_has_gone(self) -> None:
        there = actual(
            load_balancer_type=LARGE,
            services=(listener(80), listener(81), listener(82)),
            targets=tuple(map(server, (1, 2, 3, 4))),
        )
        targets = tuple(map(Target, (1, 2, 5)))
        desired = wanted(
            type=SMALL,
            listeners=(listener(80), listener(83)),
            targets=targets,
            settings={"algorithm": "least_connections"},
        )
        assert planned(desired, there) == [
            (("change_algorithm", "algorithm"), set()),
            (("delete_service", 81), set()),
            (("delete_service", 82), set()),
            (("add_service", 83), set()),
            (("add_target", Target(5)), set()),
            (("remove_target", Target(3)), set()),
            (("remove_target", Target(4)), set()),
            (
                ("change_type", "type"),
                {
                    ("delete_service", 81),
                    ("delete_service", 82),
                    ("remove_target", Target(3)),
                    ("remove_target", Target(4)),
                },
            ),
        ]

    def test_one_that_fits_comes_first_and_makes_room(self) -> None:
        there = actual(targets=tuple(map(server, (1, 2, 3))))
        desired = wanted(type=LARGE, targets=tuple(map(Target, (2, 3, 4, 5))))
        assert planned(desired, there) == [
            (("change_type", "type"), set()),
            (("add_target", Target(4)), set()),
            (("add_target", Target(5)), set()),
            (("remove_target", Target(1)), set()),
        ]
        assert keys(wanted(type=SMALL), there) == []


class TestPublic:
    def test_it_comes_before_the_targets_that_need_it(self) -> None:
        net = LoadBalancerPublicNet(False, PublicAddress("203.0.113.1"))
        there = actual(public_net=net, services=(listener(80),))
        desired = wanted(public=True, targets=(Target(1), Target(2, private=True), Target(ip="10.1.0.1")))
        assert planned(desired, there) == [
            (("enable_public_interface", "public"), set()),
            (("delete_service", 80), set()),
            (("add_target", Target(1)), {("enable_public_interface", "public")}),
            (("add_target", Target(2, private=True)), set()),
            (("add_target", Target(ip="10.1.0.1")), set()),
        ]
        assert planned(replace(desired, public=None), there)[1] == (("add_target", Target(1)), set())

    def test_it_goes_after_the_targets_have_changed_sides(self) -> None:
        there = actual(targets=(server(1), server(2, private=True)))
        desired = wanted(public=False, targets=(Target(1, private=True), Target(2, private=True)))
        switch = [("remove_target", Target(1)), ("add_target", Target(1, private=True))]
        assert planned(desired, there) == [
            (switch[0], set()),
            (switch[1], {switch[0]}),
            (("disable_public_interface", "public"), set(switch)),
        ]
        assert keys(wanted(public=True), there) == []


class TestNetwork:
    def test_to_enter(self) -> None:
        desired = wanted(
            network=1,
            private_ip="10.0.0.9",
            ip_range="10.0.0.0/24",
            targets=(Target(1, private=True), Target(2), Target(ip="10.1.0.1")),
        )
        enter = ("attach_to_network", 1)
        assert planned(desired, actual()) == [
            (enter, set()),
            (("add_target", Target(1, private=True)), {enter}),
            (("add_target", Target(2)), set()),
            (("add_target", Target(ip="10.1.0.1")), {enter}),
        ]
        [first, *_] = changes(desired, actual())
        assert first.body == {"network": 1, "ip": "10.0.0.9", "ip_range": "10.0.0.0/24"}

    def test_who_is_there_stays_unless_another_address_is_asked_for(self) -> None:
        there = actual(private_net=(PrivateNet(1, "10.0.0.1"),))
        assert planned(wanted(network=1), there) == []
        assert planned(wanted(network=1, private_ip="10.0.0.1", ip_range="10.9.0.0/24"), there) == []
        assert planned(wanted(network=1, private_ip="10.0.0.9"), there) == [
            (("detach_from_network", 1), set()),
            (("attach_to_network", 1), {("detach_from_network", 1)}),
        ]

    def test_who_can_not_enter_goes_back(self) -> None:
        for before in (PrivateNet(1, "10.0.0.1"), PrivateNet(8, "10.8.0.1")):
            asked = wanted(network=1, private_ip="10.0.0.9", ip_range="10.0.0.0/24")
            [leave, enter] = changes(asked, actual(private_net=(before,)))
            back = enter.otherwise
            assert back is not None
            assert (back.operation, back.needs, back.unforeseen) == (enter.operation, {leave.key}, True)
            assert back.body == {"network": before.network, "ip": before.ip}
            assert back.effect(actual()).private_net == (before,)
        [enter] = changes(wanted(network=1), actual())
        assert enter.otherwise is None

    def test_targets_step_aside_while_it_changes(self) -> None:
        present = [server(1, private=True), server(2, private=True), server(3)]
        there = actual(
            load_balancer_type=LARGE,
            private_net=(PrivateNet(8, "10.8.0.1"),),
            targets=(*present, server(4, private=True), server(5, private=True), SELECTOR),
        )
        desired = wanted(
            network=1,
            targets=(Target(1, private=True), Target(2), Target(3, private=True), Target(4, private=True)),
            reachable=frozenset({1, 2, 5}),
            foreign_targets=frozenset({(5, "")}),
        )
        remove = [("remove_target", Target(number, private=True)) for number in (0, 1, 2)]
        leave, enter = ("detach_from_network", 8), ("attach_to_network", 1)
        assert planned(desired, there) == [
            (remove[1], set()),
            (("add_target", Target(1)), {remove[1]}),
            (remove[2], set()),
            (("add_target", Target(2)), {remove[2]}),
            (leave, set()),
            (enter, {leave}),
            (("remove_target", Target(1)), {enter}),
            (("add_target", Target(1, private=True)), {enter, ("remove_target", Target(1))}),
            (("remove_target", Target(3)), {enter}),
            (("add_target", Target(3, private=True)), {enter, ("remove_target", Target(3))}),
        ]

    def test_they_do_not_where_there_is_no_public_side(self) -> None:
        net = LoadBalancerPublicNet(False, PublicAddress("203.0.113.1"))
        private = (PrivateNet(8, "10.8.0.1"),)
        there = actual(public_net=net, private_net=private, targets=(server(1, private=True),))
        desired = wanted(network=1, targets=(Target(1, private=True),), reachable=frozenset({1}))
        moves = [("detach_from_network", 8), ("attach_to_network", 1)]
        assert keys(desired, there) == moves
        aside = [("remove_target", Target(1, private=True)), ("add_target", Target(1))]
        back = [("remove_target", Target(1)), ("add_target", Target(1, private=True))]
        assert keys(replace(desired, public=True), there) == [
            ("enable_public_interface", "public"),
            *aside,
            *moves,
            *back,
        ]
        assert keys(desired, actual(private_net=private, targets=there.targets)) == [*aside, *moves, *back]
        assert keys(desired, actual(targets=there.targets)) == [("attach_to_network", 1)]


class TestListeners:
    def test_what_goes_comes_first_what_others_have_stays(self) -> None:
        there = actual(services=(listener(80), listener(81), listener(443)))
        desired = wanted(listeners=(listener(443), listener(8080, "http")), foreign_ports=frozenset({81}))
        assert planned(desired, there) == [(("delete_service", 80), set()), (("add_service", 8080), set())]

    def test_a_redirect_waits_until_port_80_is_free(self) -> None:
        https = listener(443, "https")
        redirecting = listener(443, "https", redirects=True)
        gone = ("delete_service", 80)
        assert planned(wanted(listeners=(redirecting,)), actual(services=(listener(80), https))) == [
            (gone, set()),
            (("update_service", 443), {gone}),
        ]
        assert planned(wanted(listeners=(redirecting,)), actual(services=(listener(80),))) == [
            (gone, set()),
            (("add_service", 443), {gone}),
        ]
        given_up = ("update_service", 443)
        assert planned(wanted(listeners=(listener(80), https)), actual(services=(redirecting,))) == [
            (given_up, set()),
            (("add_service", 80), {given_up}),
        ]
        assert planned(wanted(listeners=(listener(80),)), actual(services=(redirecting,))) == [
            (("delete_service", 443), set()),
            (("add_service", 80), {("delete_service", 443)}),
        ]

    def test_who_gives_port_80_up_comes_before_who_takes_it(self) -> None:
        there = actual(
            services=(listener(443, "https"), listener(8443, "https", redirects=True)),
            load_balancer_type=LARGE,
        )
        desired = wanted(listeners=(listener(443, "https", redirects=True), listener(8443, "https")))
        assert planned(desired, there) == [
            (("update_service", 8443), set()),
            (("update_service", 443), {("update_service", 8443)}),
        ]

    def test_the_apis_spelling_is_no_difference(self) -> None:
        spelt = msgspec.structs.replace(listener(80), http=ServiceHttp(cookie_name="x"))
        assert planned(wanted(listeners=(listener(80),)), actual(services=(spelt,))) == []


class TestTargets:
    def test_all_may_go(self) -> None:
        there = actual(targets=(server(1), LoadBalancerTarget("ip", ip=TargetIp("10.1.0.1")), SELECTOR))
        assert planned(wanted(targets=()), there) == [
            (("remove_target", Target(1)), set()),
            (("remove_target", Target(ip="10.1.0.1")), set()),
        ]
        assert planned(wanted(targets=(), foreign_targets=frozenset({(1, ""), (0, "10.1.0.1")})), there) == []

    def test_alternate_additions_and_removals_at_the_limit(self) -> None:
        there = actual(targets=(server(1), server(2)))
        assert keys(wanted(targets=tuple(map(Target, (3, 4, 5)))), there) == [
            ("add_target", Target(3)),
            ("remove_target", Target(1)),
            ("add_target", Target(4)),
            ("remove_target", Target(2)),
            ("add_target", Target(5)),
        ]
        full = actual(targets=(server(1), server(2), server(3), SELECTOR))
        assert keys(wanted(targets=(Target(4),)), full) == [
            *(
                ("remove_target", Target(1)),
                ("add_target", Target(4)),
                ("remove_target", Target(2)),
                ("remove_target", Target(3)),
            )
        ]
        few = actual(load_balancer_type=LARGE, targets=(server(1), server(2), server(3), server(4)))
        shrinks = wanted(type=SMALL, targets=tuple(map(Target, (5, 6))))
        assert keys(shrinks, few)[:3] == [
            ("add_target", Target(5)),
            ("add_target", Target(6)),
            ("remove_target", Target(1)),
        ]


class TestReverseNames:
    def test_what_differs_and_what_is_reset(self) -> None:
        net = LoadBalancerPublicNet(
            True, PublicAddress("203.0.113.1", "x.example"), PublicAddress("2001:db8::1", "y.example")
        )
        there = actual(public_net=net)
        assert planned(wanted(rdns={"ipv4": "x.example", "ipv6": "z.example"}), there) == [
            (("change_dns_ptr", "ipv6"), set())
        ]
        assert planned(wanted(rdns={"ipv6": None}), there) == [(("change_dns_ptr", "ipv6"), set())]
        assert planned(wanted(rdns={"ipv6": "z.example"}), actual()) == []
