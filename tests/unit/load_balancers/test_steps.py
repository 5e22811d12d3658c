"""Each change of a load balancer: what is asked of the API, and what it makes of the load balancer."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ccm.hetzner.api.wire import (
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
from ccm.hetzner.load_balancers.facts.targets import Target
from ccm.hetzner.load_balancers.plan.steps import (
    Change,
    add_service,
    add_target,
    attach,
    change_algorithm,
    change_protection,
    change_public,
    change_rdns,
    change_type,
    delete_service,
    detach,
    remove_target,
    service_body,
    target_body,
    update,
    update_service,
)

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


def facts(change: Change) -> tuple[str, str, object]:
    return change.operation, str(change), change.body


@pytest.mark.parametrize(
    ("change", "says", "asks", "becomes"),
    [
        (
            lambda: update({"b": "2"}),
            ("update", "set labels"),
            {"labels": {"b": "2"}},
            replace(ACTUAL, labels={"b": "2"}),
        ),
        (
            lambda: update({"b": "2"}, final=True),
            ("update", "remove labels that are not needed any more"),
            {"labels": {"b": "2"}},
            replace(ACTUAL, labels={"b": "2"}),
        ),
        (
            lambda: update({"a": "1"}, "new"),
            ("update", "rename to new"),
            {"labels": {"a": "1"}, "name": "new"},
            replace(ACTUAL, name="new"),
        ),
        (
            lambda: change_type(LARGE),
            ("change_type", "change type to lb21"),
            {"load_balancer_type": "lb21"},
            replace(ACTUAL, load_balancer_type=LARGE),
        ),
        (
            lambda: change_algorithm("least_connections"),
            ("change_algorithm", "change algorithm to least_connections"),
            {"type": "least_connections"},
            replace(ACTUAL, algorithm=Algorithm("least_connections")),
        ),
        (
            lambda: change_public(enabled=False),
            ("disable_public_interface", "disable the public interface"),
            {},
            replace(ACTUAL, public_net=replace(PUBLIC, enabled=False)),
        ),
        (
            lambda: change_public(enabled=True),
            ("enable_public_interface", "enable the public interface"),
            {},
            ACTUAL,
        ),
        (
            lambda: attach(3),
            ("attach_to_network", "attach to network 3"),
            {"network": 3},
            replace(ACTUAL, private_net=(*ACTUAL.private_net, PrivateNet(3, ""))),
        ),
        (
            lambda: attach(3, "10.3.0.1", "10.3.0.0/24"),
            ("attach_to_network", "attach to network 3 as 10.3.0.1"),
            {"network": 3, "ip": "10.3.0.1", "ip_range": "10.3.0.0/24"},
            replace(ACTUAL, private_net=(*ACTUAL.private_net, PrivateNet(3, "10.3.0.1"))),
        ),
        (
            lambda: attach(3, ip_range="10.3.0.0/24"),
            ("attach_to_network", "attach to network 3 in 10.3.0.0/24"),
            {"network": 3, "ip_range": "10.3.0.0/24"},
            replace(ACTUAL, private_net=(*ACTUAL.private_net, PrivateNet(3, ""))),
        ),
        (
            lambda: detach(1),
            ("detach_from_network", "detach from network 1"),
            {"network": 1},
            replace(ACTUAL, private_net=(PrivateNet(2, "10.2.0.1"),)),
        ),
        (
            lambda: add_service(WEB),
            ("add_service", "listen on port 8080 (http) for node port 30090"),
            service_body(WEB),
            replace(ACTUAL, services=(FIRST, SECOND, WEB)),
        ),
        (
            lambda: update_service(SECOND, MOVED),
            ("update_service", "change the listener on port 443 (destination_port, proxyprotocol)"),
            service_body(MOVED),
            replace(ACTUAL, services=(FIRST, MOVED)),
        ),
        (
            lambda: delete_service(80),
            ("delete_service", "stop listening on port 80"),
            {"listen_port": 80},
            replace(ACTUAL, services=(SECOND,)),
        ),
        (
            lambda: add_target(Target(server=2, private=True)),
            ("add_target", "add server 2 by its private address"),
            {"type": "server", "server": {"id": 2}, "use_private_ip": True},
            replace(ACTUAL, targets=(*ACTUAL.targets, NEW_SERVER)),
        ),
        (
            lambda: add_target(Target(ip="198.51.100.2")),
            ("add_target", "add address 198.51.100.2"),
            {"type": "ip", "ip": {"ip": "198.51.100.2"}},
            replace(ACTUAL, targets=(*ACTUAL.targets, NEW_IP)),
        ),
        (
            lambda: remove_target(Target(server=1)),
            ("remove_target", "remove server 1"),
            {"type": "server", "server": {"id": 1}},
            replace(ACTUAL, targets=(IP, SELECTOR)),
        ),
        (
            lambda: remove_target(Target(ip="198.51.100.1")),
            ("remove_target", "remove address 198.51.100.1"),
            {"type": "ip", "ip": {"ip": "198.51.100.1"}},
            replace(ACTUAL, targets=(SERVER, SELECTOR)),
        ),
        (
            lambda: change_rdns("ipv4", "203.0.113.1", "c.example"),
            ("change_dns_ptr", "set the reverse DNS name of 203.0.113.1 to c.example"),
            {"ip": "203.0.113.1", "dns_ptr": "c.example"},
            replace(ACTUAL, public_net=replace(PUBLIC, ipv4=PublicAddress("203.0.113.1", "c.example"))),
        ),
        (
            lambda: change_rdns("ipv6", "2001:db8::1", None),
            ("change_dns_ptr", "set the reverse DNS name of 2001:db8::1 to its default"),
            {"ip": "2001:db8::1", "dns_ptr": None},
            replace(ACTUAL, public_net=replace(PUBLIC, ipv6=PublicAddress("2001:db8::1", None))),
        ),
        (
            lambda: change_protection(protected=True),
            ("change_protection", "protect against deletion"),
            {"delete": True},
            replace(ACTUAL, protection=Protection(True)),
        ),
        (
            lambda: change_protection(protected=False),
            ("change_protection", "lift the protection against deletion"),
            {"delete": False},
            ACTUAL,
        ),
    ],
)
def test_request_and_effect(
    change: object, says: tuple[str, str], asks: object, becomes: LoadBalancer
) -> None:
    assert callable(change)
    made = change()
    assert facts(made) == (*says, asks)
    assert made.effect(ACTUAL) == becomes


def test_the_public_interface_comes_back() -> None:
    off = replace(ACTUAL, public_net=replace(PUBLIC, enabled=False))
    assert change_public(enabled=True).effect(off) == ACTUAL


def test_what_goes_back_to_a_default_and_what_the_api_decides_itself() -> None:
    every = {
        "type": change_type(LARGE),
        "algorithm": change_algorithm("round_robin"),
        "public": change_public(enabled=True),
        "protection": change_protection(protected=False),
        "ipv4": change_rdns("ipv4", "203.0.113.1", None),
        "ipv6": change_rdns("ipv6", "2001:db8::1", None),
    }
    assert {name: one.resets for name, one in every.items()} == {name: name for name in every}
    others = [
        *(change_public(enabled=False), change_rdns("ipv4", "203.0.113.1", "c.example"), update({}, "new")),
        *(attach(1), detach(1), add_service(WEB), delete_service(80), update_service(SECOND, MOVED)),
        *(add_target(Target(1)), remove_target(Target(1))),
    ]
    assert {one.resets for one in others} == {""}
    undecided = {one.operation for one in (*every.values(), *others) if one.unforeseen}
    assert undecided == {"attach_to_network", "detach_from_network", "change_dns_ptr"}
    assert not change_rdns("ipv4", "203.0.113.1", "c.example").unforeseen


def test_targets_are_told_with_their_steps() -> None:
    target = Target(server=1, private=True)
    assert add_target(target).target == remove_target(target).target == target


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
def test_requests_have_what_matters_for_the_protocol(
    listener: LoadBalancerService, http: set[str] | None, check: object
) -> None:
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


def test_a_target_by_its_public_address() -> None:
    assert target_body(Target(server=1)) == {
        "type": "server",
        "server": {"id": 1},
        "use_private_ip": False,
    }
