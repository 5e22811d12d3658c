"""Which changes lead from a load balancer as it is to what it should be: their order, and what each needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from ccm.hetzner.api.wire import (
    Algorithm,
    LoadBalancer,
    LoadBalancerPublicNet,
    LoadBalancerService,
    LoadBalancerTarget,
    LoadBalancerType,
    PrivateNet,
    Protection,
    PublicAddress,
    ServiceHttp,
    TargetIp,
    TargetServer,
)
from ccm.hetzner.load_balancers.desired.desired import Desired
from ccm.hetzner.load_balancers.plan.planner import changes
from ccm.hetzner.load_balancers.targets import Target

SMALL = LoadBalancerType(1, "lb11", max_services=2, max_targets=3)
LARGE = LoadBalancerType(2, "lb21", max_services=4, max_targets=6)
FIELD, PORT = "ccm-from-scratch/annotated-", "ccm-from-scratch/port-"
SELECTOR = LoadBalancerTarget("label_selector")
DESIRED = Desired("shop", {"a": "1"})


def server(number: int, *, private: bool = False) -> LoadBalancerTarget:
    return LoadBalancerTarget("server", server=TargetServer(number), use_private_ip=private)


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


def told(desired: Desired, present: LoadBalancer) -> list[tuple[str, set[str]]]:
    """The texts of the changes, each with those that it needs."""
    return [(str(one), set(one.needs)) for one in changes(desired, present)]


def texts(desired: Desired, present: LoadBalancer) -> list[str]:
    return [text for text, _ in told(desired, present)]


def wanted(**more: Any) -> Desired:
    return replace(DESIRED, **more)


def test_what_does_not_matter_stays() -> None:
    there = actual(
        private_net=(PrivateNet(1, "10.0.0.1"),),
        targets=(server(1), SELECTOR),
        protection=Protection(True),
        algorithm=Algorithm("least_connections"),
    )
    assert told(DESIRED, there) == []


class TestNameAndLabels:
    def test_labels_say_whose_it_is_before_it_is_renamed(self) -> None:
        """For the new name may be taken."""
        assert told(wanted(name="new", labels={"b": "2"}), actual()) == [
            ("set labels", set()),
            ("rename to new", set()),
        ]
        assert told(wanted(name="new"), actual()) == [("rename to new", set())]
        [label, rename] = changes(wanted(name="new", labels={"b": "2"}), actual())
        assert label.body == {"labels": {"b": "2"}}
        assert rename.body == {"labels": {"b": "2"}, "name": "new"}

    def test_a_name_that_goes_back_goes_with_the_label_that_remembers_it(self) -> None:
        [change] = changes(wanted(name="new", labels={}, resets=frozenset({"name"})), actual())
        assert change.body == {"labels": {}, "name": "new"}
        assert texts(wanted(labels={}, resets=frozenset({"name"})), actual()) == ["set labels"]

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
            "change type to lb21",
            "set the reverse DNS name of 203.0.113.1 to its default",
            "enable the public interface",
            "change algorithm to round_robin",
            "lift the protection against deletion",
        ]
        assert told(desired, there) == [
            *((text, set()) for text in back),
            ("set labels", set(back)),
            ("rename to new", set(back)),
            ("set the reverse DNS name of 2001:db8::1 to six.example", set()),
        ]
        assert told(replace(desired, resets=frozenset({"name", "protection"})), there)[:2] == [
            ("lift the protection against deletion", set()),
            ("rename to new", {"lift the protection against deletion"}),
        ]

    def test_without_a_reset_they_do_not_wait(self) -> None:
        settings = {"algorithm": "least_connections", "protection": True}
        desired = wanted(labels={}, type=LARGE, public=False, settings=settings)
        assert told(desired, actual()) == [
            ("set labels", set()),
            ("change type to lb21", set()),
            ("change algorithm to least_connections", set()),
            ("disable the public interface", set()),
            ("protect against deletion", set()),
        ]

    def test_a_listeners_owner_is_remembered_until_it_has_gone(self) -> None:
        labels = {"a": "1", f"{PORT}80": "uid", f"{PORT}443": "uid", f"{FIELD}interval": ""}
        there = actual(labels=labels, services=(listener(80), listener(443)))
        desired = wanted(labels={"a": "2"}, foreign_ports=frozenset({443}))
        assert told(desired, there) == [
            ("set labels", set()),
            ("stop listening on port 80", set()),
            ("remove labels that are not needed any more", {"stop listening on port 80"}),
        ]
        first, _, last = changes(desired, there)
        assert first.body == {"labels": {"a": "2", f"{PORT}80": "uid"}}
        assert last.body == {"labels": {"a": "2"}}

    def test_what_was_annotated_is_remembered_until_the_listeners_have_changed(self) -> None:
        labels = {"a": "1", f"{PORT}80": "uid", f"{FIELD}interval": "", f"{FIELD}timeout": ""}
        there = actual(labels=labels, services=(listener(80, proxyprotocol=True),))
        desired = wanted(labels={"a": "1", f"{FIELD}timeout": "x"}, listeners=(listener(80),))
        assert told(desired, there) == [
            ("set labels", set()),
            ("change the listener on port 80 (proxyprotocol)", set()),
            (
                "remove labels that are not needed any more",
                {"change the listener on port 80 (proxyprotocol)"},
            ),
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
        assert last.needs == {"stop listening on port 80", "change the listener on port 443 (proxyprotocol)"}

    def test_labels_that_stay_or_were_never_there_need_no_second_write(self) -> None:
        kept = {"a": "1", f"{PORT}80": "uid"}
        assert texts(wanted(labels=kept), actual(labels=kept, services=(listener(80),))) == [
            "stop listening on port 80"
        ]
        assert texts(DESIRED, actual(services=(listener(80),))) == ["stop listening on port 80"]
        fields = {"a": "1", f"{FIELD}interval": ""}
        assert texts(DESIRED, actual(labels=fields)) == ["set labels"]


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
        assert told(desired, there) == [
            ("change algorithm to least_connections", set()),
            ("stop listening on port 81", set()),
            ("stop listening on port 82", set()),
            ("listen on port 83 (tcp) for node port 30083", set()),
            ("add server 5", set()),
            ("remove server 3", set()),
            ("remove server 4", set()),
            (
                "change type to lb11",
                {
                    "stop listening on port 81",
                    "stop listening on port 82",
                    "remove server 3",
                    "remove server 4",
                },
            ),
        ]

    def test_one_that_fits_comes_first_and_makes_room(self) -> None:
        there = actual(targets=tuple(map(server, (1, 2, 3))))
        desired = wanted(type=LARGE, targets=tuple(map(Target, (2, 3, 4, 5))))
        assert told(desired, there) == [
            ("change type to lb21", set()),
            ("add server 4", set()),
            ("add server 5", set()),
            ("remove server 1", set()),
        ]
        assert texts(wanted(type=SMALL), there) == []


class TestPublic:
    def test_it_comes_before_the_targets_that_need_it(self) -> None:
        net = LoadBalancerPublicNet(False, PublicAddress("203.0.113.1"))
        there = actual(public_net=net, services=(listener(80),))
        desired = wanted(public=True, targets=(Target(1), Target(2, private=True), Target(ip="10.1.0.1")))
        assert told(desired, there) == [
            ("enable the public interface", set()),
            ("stop listening on port 80", set()),
            ("add server 1", {"enable the public interface"}),
            ("add server 2 by its private address", set()),
            ("add address 10.1.0.1", set()),
        ]
        assert told(replace(desired, public=None), there)[1] == ("add server 1", set())

    def test_it_goes_after_the_targets_have_changed_sides(self) -> None:
        there = actual(targets=(server(1), server(2, private=True)))
        desired = wanted(public=False, targets=(Target(1, private=True), Target(2, private=True)))
        switch = ["remove server 1", "add server 1 by its private address"]
        assert told(desired, there) == [
            (switch[0], set()),
            (switch[1], {switch[0]}),
            ("disable the public interface", set(switch)),
        ]
        assert texts(wanted(public=True), there) == []


class TestNetwork:
    def test_to_enter(self) -> None:
        desired = wanted(
            network=1,
            private_ip="10.0.0.9",
            ip_range="10.0.0.0/24",
            targets=(Target(1, private=True), Target(2), Target(ip="10.1.0.1")),
        )
        enter = "attach to network 1 as 10.0.0.9"
        assert told(desired, actual()) == [
            (enter, set()),
            ("add server 1 by its private address", {enter}),
            ("add server 2", set()),
            ("add address 10.1.0.1", {enter}),
        ]
        [first, *_] = changes(desired, actual())
        assert first.body == {"network": 1, "ip": "10.0.0.9", "ip_range": "10.0.0.0/24"}

    def test_who_is_there_stays_unless_another_address_is_asked_for(self) -> None:
        there = actual(private_net=(PrivateNet(1, "10.0.0.1"),))
        assert told(wanted(network=1), there) == []
        assert told(wanted(network=1, private_ip="10.0.0.1", ip_range="10.9.0.0/24"), there) == []
        assert told(wanted(network=1, private_ip="10.0.0.9"), there) == [
            ("detach from network 1", set()),
            ("attach to network 1 as 10.0.0.9", {"detach from network 1"}),
        ]

    def test_who_can_not_enter_goes_back(self) -> None:
        for before in (PrivateNet(1, "10.0.0.1"), PrivateNet(8, "10.8.0.1")):
            asked = wanted(network=1, private_ip="10.0.0.9", ip_range="10.0.0.0/24")
            [leave, enter] = changes(asked, actual(private_net=(before,)))
            back = enter.otherwise
            assert back is not None
            assert (back.operation, back.needs, back.unforeseen) == (enter.operation, {str(leave)}, True)
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
        remove = [f"remove server {number} by its private address" for number in (0, 1, 2)]
        leave, enter = "detach from network 8", "attach to network 1"
        assert told(desired, there) == [
            (remove[1], set()),
            ("add server 1", {remove[1]}),
            (remove[2], set()),
            ("add server 2", {remove[2]}),
            (leave, set()),
            (enter, {leave}),
            ("remove server 1", {enter}),
            ("add server 1 by its private address", {enter, "remove server 1"}),
            ("remove server 3", {enter}),
            ("add server 3 by its private address", {enter, "remove server 3"}),
        ]

    def test_they_do_not_where_there_is_no_public_side(self) -> None:
        net = LoadBalancerPublicNet(False, PublicAddress("203.0.113.1"))
        private = (PrivateNet(8, "10.8.0.1"),)
        there = actual(public_net=net, private_net=private, targets=(server(1, private=True),))
        desired = wanted(network=1, targets=(Target(1, private=True),), reachable=frozenset({1}))
        moves = ["detach from network 8", "attach to network 1"]
        assert texts(desired, there) == moves
        aside = ["remove server 1 by its private address", "add server 1"]
        back = ["remove server 1", "add server 1 by its private address"]
        assert texts(replace(desired, public=True), there) == [
            "enable the public interface",
            *aside,
            *moves,
            *back,
        ]
        assert texts(desired, actual(private_net=private, targets=there.targets)) == [*aside, *moves, *back]
        assert texts(desired, actual(targets=there.targets)) == ["attach to network 1"]


class TestListeners:
    def test_what_goes_comes_first_what_others_have_stays(self) -> None:
        there = actual(services=(listener(80), listener(81), listener(443)))
        desired = wanted(listeners=(listener(443), listener(8080, "http")), foreign_ports=frozenset({81}))
        assert told(desired, there) == [
            ("stop listening on port 80", set()),
            ("listen on port 8080 (http) for node port 38080", set()),
        ]

    def test_a_redirect_waits_until_port_80_is_free(self) -> None:
        https = listener(443, "https")
        redirecting = listener(443, "https", redirects=True)
        gone = "stop listening on port 80"
        assert told(wanted(listeners=(redirecting,)), actual(services=(listener(80), https))) == [
            (gone, set()),
            ("change the listener on port 443 (http)", {gone}),
        ]
        assert told(wanted(listeners=(redirecting,)), actual(services=(listener(80),))) == [
            (gone, set()),
            ("listen on port 443 (https) for node port 30443", {gone}),
        ]
        given_up = "change the listener on port 443 (http)"
        assert told(wanted(listeners=(listener(80), https)), actual(services=(redirecting,))) == [
            (given_up, set()),
            ("listen on port 80 (tcp) for node port 30080", {given_up}),
        ]
        assert told(wanted(listeners=(listener(80),)), actual(services=(redirecting,))) == [
            ("stop listening on port 443", set()),
            ("listen on port 80 (tcp) for node port 30080", {"stop listening on port 443"}),
        ]

    def test_who_gives_port_80_up_comes_before_who_takes_it(self) -> None:
        there = actual(
            services=(listener(443, "https"), listener(8443, "https", redirects=True)),
            load_balancer_type=LARGE,
        )
        desired = wanted(listeners=(listener(443, "https", redirects=True), listener(8443, "https")))
        assert told(desired, there) == [
            ("change the listener on port 8443 (http)", set()),
            ("change the listener on port 443 (http)", {"change the listener on port 8443 (http)"}),
        ]

    def test_the_apis_spelling_is_no_difference(self) -> None:
        spelt = msgspec.structs.replace(listener(80), http=ServiceHttp(cookie_name="x"))
        assert told(wanted(listeners=(listener(80),)), actual(services=(spelt,))) == []


class TestTargets:
    def test_all_may_go(self) -> None:
        there = actual(targets=(server(1), LoadBalancerTarget("ip", ip=TargetIp("10.1.0.1")), SELECTOR))
        assert told(wanted(targets=()), there) == [
            ("remove server 1", set()),
            ("remove address 10.1.0.1", set()),
        ]
        assert told(wanted(targets=(), foreign_targets=frozenset({(1, ""), (0, "10.1.0.1")})), there) == []

    def test_in_turns_where_there_is_no_room(self) -> None:
        there = actual(targets=(server(1), server(2)))
        assert texts(wanted(targets=tuple(map(Target, (3, 4, 5)))), there) == [
            "add server 3",
            "remove server 1",
            "add server 4",
            "remove server 2",
            "add server 5",
        ]
        full = actual(targets=(server(1), server(2), server(3), SELECTOR))
        assert texts(wanted(targets=(Target(4),)), full) == [
            *("remove server 1", "add server 4", "remove server 2", "remove server 3")
        ]
        few = actual(load_balancer_type=LARGE, targets=(server(1), server(2), server(3), server(4)))
        shrinks = wanted(type=SMALL, targets=tuple(map(Target, (5, 6))))
        assert texts(shrinks, few)[:3] == ["add server 5", "add server 6", "remove server 1"]

    def test_more_than_there_are_to_go_are_added_all_the_same(self) -> None:
        there = actual(targets=(server(1), SELECTOR, SELECTOR))
        assert texts(wanted(targets=tuple(map(Target, (2, 3)))), there) == [
            *("remove server 1", "add server 2", "add server 3")
        ]


class TestReverseNames:
    def test_what_differs_and_what_is_reset(self) -> None:
        net = LoadBalancerPublicNet(
            True, PublicAddress("203.0.113.1", "x.example"), PublicAddress("2001:db8::1", "y.example")
        )
        there = actual(public_net=net)
        assert told(wanted(rdns={"ipv4": "x.example", "ipv6": "z.example"}), there) == [
            ("set the reverse DNS name of 2001:db8::1 to z.example", set())
        ]
        assert told(wanted(rdns={"ipv6": None}), there) == [
            ("set the reverse DNS name of 2001:db8::1 to its default", set())
        ]
        assert told(wanted(rdns={"ipv6": "z.example"}), actual()) == []
        both = wanted(rdns={"ipv4": "a.example", "ipv6": "b.example"})
        assert [one.body for one in changes(both, there)] == [
            {"ip": "203.0.113.1", "dns_ptr": "a.example"},
            {"ip": "2001:db8::1", "dns_ptr": "b.example"},
        ]
        assert [one.effect(there).public_net.ipv6.dns_ptr for one in changes(both, there)] == [
            "y.example",
            "b.example",
        ]


def test_protection_that_is_so_already() -> None:
    assert told(wanted(settings={"protection": True}), actual(protection=Protection(True))) == []
    assert told(wanted(settings={"protection": False}), actual()) == []
