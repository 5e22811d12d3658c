"""Each change of a load balancer: what is asked of the API, and what it makes of the load balancer."""

from typing import Any

import pytest
from msgspec.structs import replace

from ccm.hetzner.api.models import (
    Algorithm,
    HealthCheck,
    HealthCheckHttp,
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
from ccm.hetzner.load_balancers.desired.desired_state import DesiredState
from ccm.hetzner.load_balancers.plan.listener_changes import service_body
from ccm.hetzner.load_balancers.plan.planner import changes
from ccm.hetzner.load_balancers.plan.steps import Change
from ccm.hetzner.load_balancers.targets import Target

SERVER = LoadBalancerTarget("server", server=TargetServer(1), use_private_ip=True)
IP = LoadBalancerTarget("ip", ip=TargetIp("198.51.100.1"))
SELECTOR = LoadBalancerTarget("label_selector")
FIRST, SECOND = LoadBalancerService("tcp", 80, 30080), LoadBalancerService("tcp", 443, 30443)
ACTUAL = LoadBalancer(
    7,
    "shop",
    public_net=LoadBalancerPublicNet(
        True, PublicAddress("203.0.113.1", "a.example"), PublicAddress("2001:db8::1", "b.example")
    ),
    private_net=(PrivateNet(1, "10.0.0.1"), PrivateNet(2, "10.2.0.1")),
    load_balancer_type=LoadBalancerType(1, "lb11"),
    labels={"a": "1"},
    services=(FIRST, SECOND),
    targets=(SERVER, IP, SELECTOR),
)
PUBLIC = ACTUAL.public_net
LARGE = LoadBalancerType(2, "lb21")
WEB = LoadBalancerService("http", 8080, 30090, http=ServiceHttp())
MOVED = LoadBalancerService("tcp", 443, 30999, proxyprotocol=True)
NEW_SERVER = LoadBalancerTarget("server", server=TargetServer(2), use_private_ip=True)
NEW_IP = LoadBalancerTarget("ip", ip=TargetIp("198.51.100.2"))


def change(text: str, there: LoadBalancer = ACTUAL, **wanted: Any) -> Change:
    """The change with this text, of all that lead to what is wanted."""
    usual: dict[str, Any] = {"labels": {"a": "1"}, "foreign_ports": frozenset({80, 443})}
    if "listeners" in wanted:
        usual["foreign_ports"] = frozenset({80})
    several = changes(DesiredState(**{"name": "shop", **usual, **wanted}), there)
    [found] = [one for one in several if str(one) == text]
    return found


NETS = ACTUAL.private_net
IN_SUBNET = {"network": 3, "ip_range": "10.3.0.0/24"}
OFF, TO_C, RESET = (
    replace(PUBLIC, enabled=False),
    replace(PUBLIC, ipv4=PublicAddress("203.0.113.1", "c.example")),
    replace(PUBLIC, ipv6=PublicAddress("2001:db8::1", None)),
)


@pytest.mark.parametrize(
    ("wanted", "text", "asks", "becomes"),
    [
        ({"labels": {"b": "2"}}, "update: set labels", {"labels": {"b": "2"}}, {"labels": {"b": "2"}}),
        ({"name": "new"}, "update: rename to new", {"labels": {"a": "1"}, "name": "new"}, {"name": "new"}),
        (
            {"type": LARGE},
            "change_type: change type to lb21",
            {"load_balancer_type": "lb21"},
            {"load_balancer_type": LARGE},
        ),
        (
            {"settings": {"algorithm": "least_connections"}},
            "change_algorithm: change algorithm to least_connections",
            {"type": "least_connections"},
            {"algorithm": Algorithm("least_connections")},
        ),
        (
            {"public": False},
            "disable_public_interface: disable the public interface",
            {},
            {"public_net": OFF},
        ),
        (
            {"network": 3},
            "attach_to_network: attach to network 3",
            {"network": 3},
            {"private_net": (*NETS, PrivateNet(3, ""))},
        ),
        (
            {**IN_SUBNET, "private_ip": "10.3.0.1"},
            "attach_to_network: attach to network 3 as 10.3.0.1",
            {**IN_SUBNET, "ip": "10.3.0.1"},
            {"private_net": (*NETS, PrivateNet(3, "10.3.0.1"))},
        ),
        (
            IN_SUBNET,
            "attach_to_network: attach to network 3 in 10.3.0.0/24",
            IN_SUBNET,
            {"private_net": (*NETS, PrivateNet(3, ""))},
        ),
        (
            {"network": 3},
            "detach_from_network: detach from network 1",
            {"network": 1},
            {"private_net": NETS[1:]},
        ),
        (
            {"listeners": (WEB,)},
            "add_service: listen on port 8080 (http) for node port 30090",
            service_body(WEB),
            {"services": (FIRST, SECOND, WEB)},
        ),
        (
            {"listeners": (MOVED,)},
            "update_service: change the listener on port 443 (destination_port, proxyprotocol)",
            service_body(MOVED),
            {"services": (FIRST, MOVED)},
        ),
        (
            {"foreign_ports": frozenset({443})},
            "delete_service: stop listening on port 80",
            {"listen_port": 80},
            {"services": (SECOND,)},
        ),
        (
            {"targets": (Target(server=2, private=True),)},
            "add_target: add server 2 by its private address",
            {"type": "server", "server": {"id": 2}, "use_private_ip": True},
            {"targets": (*ACTUAL.targets, NEW_SERVER)},
        ),
        (
            {"targets": (Target(ip="198.51.100.2"),)},
            "add_target: add address 198.51.100.2",
            {"type": "ip", "ip": {"ip": "198.51.100.2"}},
            {"targets": (*ACTUAL.targets, NEW_IP)},
        ),
        (
            {"targets": ()},
            "remove_target: remove server 1 by its private address",
            {"type": "server", "server": {"id": 1}},
            {"targets": (IP, SELECTOR)},
        ),
        (
            {"targets": ()},
            "remove_target: remove address 198.51.100.1",
            {"type": "ip", "ip": {"ip": "198.51.100.1"}},
            {"targets": (SERVER, SELECTOR)},
        ),
        (
            {"rdns": {"ipv4": "c.example"}},
            "change_dns_ptr: set the reverse DNS name of 203.0.113.1 to c.example",
            {"ip": "203.0.113.1", "dns_ptr": "c.example"},
            {"public_net": TO_C},
        ),
        (
            {"rdns": {"ipv6": None}},
            "change_dns_ptr: set the reverse DNS name of 2001:db8::1 to its default",
            {"ip": "2001:db8::1", "dns_ptr": None},
            {"public_net": RESET},
        ),
        (
            {"settings": {"protection": True}},
            "change_protection: protect against deletion",
            {"delete": True},
            {"protection": Protection(True)},
        ),
    ],
)
def test_request_and_effect(wanted: dict[str, Any], text: str, asks: object, becomes: dict[str, Any]) -> None:
    operation, _, text = text.partition(": ")
    made = change(text, **wanted)
    assert (made.operation, made.body) == (operation, asks)
    assert made.effect(ACTUAL) == replace(ACTUAL, **becomes)


def test_what_was_changed_comes_back() -> None:
    off = replace(ACTUAL, public_net=replace(PUBLIC, enabled=False), protection=Protection(True))
    public = change("enable the public interface", off, public=True)
    assert (public.operation, public.body) == ("enable_public_interface", {})
    lifted = change("lift the protection against deletion", off, settings={"protection": False})
    assert (lifted.operation, lifted.body) == ("change_protection", {"delete": False})
    assert lifted.effect(public.effect(off)) == ACTUAL


def test_labels_that_go_last() -> None:
    there = replace(ACTUAL, labels={"a": "1", "ccm-from-scratch/port-80": "uid"})
    last = change("remove labels that are no longer needed", there, foreign_ports=frozenset({443}))
    assert (last.operation, last.body) == ("update", {"labels": {"a": "1"}})
    assert last.effect(there) == ACTUAL


def test_what_goes_back_to_a_default_and_what_the_api_decides_itself() -> None:
    there = replace(
        ACTUAL,
        public_net=replace(PUBLIC, enabled=False),
        protection=Protection(True),
        algorithm=Algorithm("least_connections"),
    )
    wanted = DesiredState(
        "new",
        {},
        LARGE,
        public=True,
        network=3,
        listeners=(MOVED, WEB),
        targets=(Target(2),),
        rdns={"ipv4": None, "ipv6": None},
        settings={"algorithm": "round_robin", "protection": False},
    )
    every = changes(wanted, there)
    assert {one.operation: one.resets for one in every if one.resets} == {
        "change_type": "type",
        "change_algorithm": "algorithm",
        "enable_public_interface": "public",
        "change_dns_ptr": "ipv6",
        "change_protection": "protection",
    }
    assert [one.resets for one in every if one.operation == "change_dns_ptr"] == ["ipv4", "ipv6"]
    assert {one.operation for one in every} == {
        *("update", "change_type", "change_algorithm", "enable_public_interface", "change_protection"),
        *("attach_to_network", "detach_from_network", "change_dns_ptr"),
        *("add_service", "update_service", "delete_service", "add_target", "remove_target"),
    }
    undecided = {one.operation for one in every if one.unforeseen}
    assert undecided == {"attach_to_network", "detach_from_network", "change_dns_ptr"}
    others = changes(
        DesiredState(
            "shop", ACTUAL.labels, public=False, rdns={"ipv4": "c.example"}, listeners=(FIRST, SECOND)
        ),
        ACTUAL,
    )
    assert [(other.operation, other.resets, other.unforeseen) for other in others] == [
        ("change_dns_ptr", "", False),
        ("disable_public_interface", "", False),
    ]


CERTIFIED = ServiceHttp(certificates=(1, 2), redirect_http=True, sticky_sessions=True)
CHECKED = HealthCheckHttp(path="/up", status_codes=("200",))


@pytest.mark.parametrize(
    ("listener", "http", "check"),
    [
        (LoadBalancerService("tcp", 80, 30080), None, None),
        (
            LoadBalancerService("http", 80, 30080, http=CERTIFIED, health_check=HealthCheck(http=CHECKED)),
            {"cookie_name", "cookie_lifetime", "timeout_idle", "sticky_sessions"},
            {"domain": "", "path": "/up", "response": "", "status_codes": ("200",), "tls": False},
        ),
        (
            LoadBalancerService(
                "https",
                443,
                30443,
                http=CERTIFIED,
                health_check=HealthCheck(http=replace(CHECKED, domain="a.example", response="ok", tls=True)),
            ),
            {
                *("cookie_name", "cookie_lifetime", "timeout_idle"),
                *("sticky_sessions", "certificates", "redirect_http"),
            },
            {"domain": "a.example", "path": "/up", "response": "ok", "status_codes": ("200",), "tls": True},
        ),
    ],
)
def test_bodies_by_protocol(listener: LoadBalancerService, http: set[str] | None, check: object) -> None:
    body = service_body(listener)
    assert {key: body[key] for key in ("protocol", "listen_port", "destination_port", "proxyprotocol")} == {
        "protocol": listener.protocol,
        "listen_port": listener.listen_port,
        "destination_port": listener.destination_port,
        "proxyprotocol": False,
    }
    assert (set(body["http"]) if "http" in body else None) == http
    assert body["health_check"].get("http") == check
    assert ("http" in body["health_check"]) is (check is not None)
