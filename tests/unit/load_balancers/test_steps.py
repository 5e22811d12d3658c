from typing import Any

import pytest
from desired_cases import SELECTOR, server
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
)
from ccm.hetzner.load_balancers.desired.desired_state import DesiredState
from ccm.hetzner.load_balancers.plan.listener_changes import service_body
from ccm.hetzner.load_balancers.plan.planner import changes
from ccm.hetzner.load_balancers.plan.steps import Change
from ccm.hetzner.load_balancers.targets import Target

FIRST, SECOND = LoadBalancerService("tcp", 80, 30080), LoadBalancerService("tcp", 443, 30443)
SERVER, IP = Target(1, private=True), Target(ip="198.51.100.1")
ACTUAL = LoadBalancer(
    7,
    "shop",
    public_net=LoadBalancerPublicNet(
        True, PublicAddress("203.0.113.1", "a.example"), PublicAddress("2001:db8::1", "b.example")
    ),
    private_net=(PrivateNet(1, "10.0.0.1"),),
    load_balancer_type=LoadBalancerType(1, "lb11"),
    labels={"a": "1"},
    services=(FIRST, SECOND),
    targets=(server(1, private=True), LoadBalancerTarget("ip", ip=TargetIp(IP.ip)), SELECTOR),
)
OFF = replace(
    ACTUAL,
    public_net=replace(ACTUAL.public_net, enabled=False),
    protection=Protection(True),
    algorithm=Algorithm("least_connections"),
)
LARGE = LoadBalancerType(2, "lb21")
WEB = LoadBalancerService("http", 8080, 30090, http=ServiceHttp())
MOVED = LoadBalancerService("tcp", 443, 30999, proxyprotocol=True)


def lead(there: LoadBalancer = ACTUAL, **wanted: Any) -> list[Change]:
    usual: dict[str, Any] = {"labels": {"a": "1"}, "listeners": (FIRST, SECOND)}
    return changes(DesiredState(**{"name": "shop", **usual, **wanted}), there)


@pytest.mark.parametrize(
    ("wanted", "operation", "body"),
    [
        ({"type": LARGE}, "change_type", {"load_balancer_type": "lb21"}),
        ({"settings": {"algorithm": "least_connections"}}, "change_algorithm", {"type": "least_connections"}),
        ({"settings": {"protection": True}}, "change_protection", {"delete": True}),
        ({"public": False}, "disable_public_interface", {}),
        ({"network": 3}, "attach_to_network", {"network": 3}),
        ({"network": 3}, "detach_from_network", {"network": 1}),
        ({"listeners": (FIRST, SECOND, WEB)}, "add_service", service_body(WEB)),
        ({"listeners": (FIRST, MOVED)}, "update_service", service_body(MOVED)),
        ({"listeners": (SECOND,)}, "delete_service", {"listen_port": 80}),
        (
            {"targets": (SERVER, IP, Target(2, private=True))},
            "add_target",
            {"type": "server", "server": {"id": 2}, "use_private_ip": True},
        ),
        (
            {"targets": (SERVER, IP, Target(ip="198.51.100.2"))},
            "add_target",
            {"type": "ip", "ip": {"ip": "198.51.100.2"}},
        ),
        ({"targets": (IP,)}, "remove_target", {"type": "server", "server": {"id": 1}}),
        ({"targets": (SERVER,)}, "remove_target", {"type": "ip", "ip": {"ip": "198.51.100.1"}}),
        ({"rdns": {"ipv4": "c.example"}}, "change_dns_ptr", {"ip": "203.0.113.1", "dns_ptr": "c.example"}),
        ({"rdns": {"ipv6": None}}, "change_dns_ptr", {"ip": "2001:db8::1", "dns_ptr": None}),
    ],
)
def test_requests(wanted: dict[str, Any], operation: str, body: object) -> None:
    assert [one.body for one in lead(**wanted) if one.operation == operation] == [body]


def test_what_was_changed_comes_back() -> None:
    back = lead(OFF, public=True, settings={"algorithm": "round_robin", "protection": False})
    assert {one.operation: (one.body, one.resets) for one in back} == {
        "enable_public_interface": ({}, "public"),
        "change_algorithm": ({"type": "round_robin"}, "algorithm"),
        "change_protection": ({"delete": False}, "protection"),
    }
    [name] = lead(rdns={"ipv6": None})
    assert (name.effect(ACTUAL).public_net.ipv6.dns_ptr, name.resets) == (None, "ipv6")


def test_what_the_api_decides_itself() -> None:
    every = lead(OFF, type=LARGE, public=True, network=3, rdns={"ipv4": "x"}, listeners=(MOVED, WEB))
    assert {one.operation for one in every if one.unforeseen} == {"attach_to_network", "detach_from_network"}
    assert {one.operation: one.resets for one in every if one.resets} == {
        "change_type": "type",
        "enable_public_interface": "public",
    }
    less = lead(rdns={"ipv4": None}, public=False)
    assert {one.operation: (one.unforeseen, one.resets) for one in less} == {
        "change_dns_ptr": (True, "ipv4"),
        "disable_public_interface": (False, ""),
    }


@pytest.mark.parametrize(
    ("wanted", "texts"),
    [
        ({"type": LARGE, "public": False}, ["change type to lb21", "disable the public interface"]),
        ({"name": "b", "labels": {"a": "2"}}, ["set labels", "rename to b"]),
        (
            {"rdns": {"ipv4": "c", "ipv6": None}},
            [
                f"set the reverse DNS name of {at}"
                for at in ("203.0.113.1 to c", "2001:db8::1 to its default")
            ],
        ),
        ({"network": 3}, ["detach from network 1", "attach to network 3"]),
        (
            {"network": 3, "private_ip": "10.0.0.9"},
            ["detach from network 1", "attach to network 3 as 10.0.0.9"],
        ),
        (
            {"targets": (SERVER, Target(ip="198.51.100.2"))},
            [f"add {Target(ip='198.51.100.2')}", f"remove {IP}"],
        ),
        (
            {"listeners": (FIRST, MOVED), "settings": {"algorithm": "least_connections", "protection": True}},
            ["algorithm to least_connections", "protect against", "(destination_port, proxyprotocol)"],
        ),
    ],
)
def test_a_step_names_what_changes(wanted: dict[str, Any], texts: list[str]) -> None:
    found = [str(step) for step in lead(**wanted)]
    assert len(found) == len(texts)
    assert all(text in "\n".join(found) for text in texts)


CERTIFIED = ServiceHttp(certificates=(1, 2), redirect_http=True, sticky_sessions=True)
FOR_HTTP = {"cookie_name", "cookie_lifetime", "timeout_idle", "sticky_sessions"}
CHECKED = HealthCheckHttp(path="/up", status_codes=("200",))
BARE = {"domain": "", "path": "/up", "response": "", "status_codes": ("200",), "tls": False}
SAID = {"domain": "a.example", "response": "ok", "tls": True}


@pytest.mark.parametrize(
    ("protocol", "http", "check", "http_keys", "check_body"),
    [
        ("tcp", None, None, None, None),
        ("http", CERTIFIED, CHECKED, FOR_HTTP, BARE),
        (
            "https",
            CERTIFIED,
            replace(CHECKED, **SAID),
            {*FOR_HTTP, "certificates", "redirect_http"},
            {**BARE, **SAID},
        ),
    ],
)
def test_bodies_by_protocol(
    protocol: str,
    http: ServiceHttp | None,
    check: HealthCheckHttp | None,
    http_keys: set[str] | None,
    check_body: object,
) -> None:
    body = service_body(LoadBalancerService(protocol, 80, 1, http=http, health_check=HealthCheck(http=check)))
    assert (set(body["http"]) if "http" in body else None) == http_keys
    assert body["health_check"].get("http") == check_body
    assert ("http" in body["health_check"]) is (check is not None)
