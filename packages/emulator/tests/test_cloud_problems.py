"""What the console puts first."""

from __future__ import annotations

from typing import Any

from cloud_emulator import Emulator

from hetzner_emulator.admin.problems import problems, title

NOTHING: dict[str, Any] = {
    name: []
    for name in ("servers", "networks", "load_balancers", "certificates", "actions", "faults", "quota")
}


def said(now: float = 0.0, **shown: Any) -> list[str]:
    return [f"{one['about']}: {one['text']}" for one in problems({**NOTHING, **shown}, now)]


def target(server: int, **health: str) -> dict[str, Any]:
    states = [{"listen_port": int(port[1:]), "status": status} for port, status in health.items()]
    return {"type": "server", "server": {"id": server}, "health_status": states}


def balancer(*targets: dict[str, Any], ports: tuple[int, ...] = (80,)) -> dict[str, Any]:
    services = [{"listen_port": port} for port in ports]
    return {"name": "lb", "labels": {}, "services": services, "targets": list(targets)}


def server(number: int, status: str = "running", **private: Any) -> dict[str, Any]:
    return {"id": number, "name": f"s{number}", "status": status, "private": [private] if private else []}


async def test_a_cloud_without_problems_has_none(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    made = await emulator.make_server(networks=[network["id"]])
    route = {"destination": "10.1.0.0/24", "gateway": "10.0.0.2"}
    await emulator.ok("POST", f"/networks/{network['id']}/actions/add_route", route)
    assert (await emulator.ok("GET", "/_sandbox/overview"))["problems"] == []
    await emulator.ok("POST", f"/servers/{made['id']}/actions/poweroff")
    (one,) = (await emulator.ok("GET", "/_sandbox/overview"))["problems"]
    assert one == {"about": "server", "text": "web is off"}


def test_a_load_balancer_has_the_name_of_its_service():
    labels = {"ccm-from-scratch/namespace": "shop", "ccm-from-scratch/service": "web"}
    assert title({"name": "a0b1", "labels": labels}) == "shop/web"
    assert title({"name": "mine", "labels": {}}) == "mine"


def test_unhealthy_targets_by_port():
    servers = [server(number) for number in (1, 2)]
    good, bad = target(1, p80="healthy", p443="healthy"), target(2, p80="unhealthy", p443="unknown")
    assert said(servers=servers, load_balancers=[balancer(good, bad, ports=(80, 443))]) == [
        "load balancer: lb, port 80: 1 of 2 targets unhealthy: s2"
    ]
    both = target(2, p80="unhealthy", p443="unhealthy")
    assert said(servers=servers, load_balancers=[balancer(both, ports=(443, 80))]) == [
        "load balancer: lb, ports 80, 443: 1 of 1 targets unhealthy: s2"
    ]
    behind = {"type": "label_selector", "targets": [bad], "health_status": []}
    assert said(servers=servers, load_balancers=[balancer(behind)]) == [
        "load balancer: lb, port 80: 1 of 1 targets unhealthy: s2"
    ]
    address = {"type": "ip", "ip": {"ip": "10.0.0.9"}, "health_status": bad["health_status"]}
    assert said(load_balancers=[balancer(address)]) == [
        "load balancer: lb, port 80: 1 of 1 targets unhealthy: 10.0.0.9"
    ]


def test_a_load_balancer_without_health_status():
    silent = ["load balancer: lb, port 80: no target has a health status"]
    for nothing in (target(1, p80="unknown"), target(1)):
        assert said(servers=[server(1)], load_balancers=[balancer(nothing, nothing)]) == silent
        assert said(servers=[server(1)], load_balancers=[balancer(nothing, target(1, p80="healthy"))]) == []


def test_a_load_balancer_without_targets():
    assert said(load_balancers=[balancer()]) == ["load balancer: lb has no targets"]
    assert said(load_balancers=[balancer(ports=())]) == []


def test_many_of_a_kind_are_counted():
    assert said(servers=[server(number, "off") for number in range(5)]) == [
        "server: s0, s1, s2 and 2 more are off"
    ]


def test_a_route_without_a_gateway():
    routes = [{"destination": "10.1.0.0/24", "gateway": f"10.0.0.{number}"} for number in (2, 3)]
    network = {"id": 7, "name": "net", "routes": routes}
    assert said(networks=[network], servers=[server(1, network=7, ip="10.0.0.2")]) == [
        "route: 10.1.0.0/24 of net leads to 10.0.0.3, which no server has"
    ]


def test_a_failed_action_is_a_problem_for_a_while():
    failed = {
        "command": "add_route",
        "resources": [{"type": "network", "id": 7}],
        "error": {"message": "locked"},
        "ended": 1000.0,
    }
    assert said(now=1599.0, actions=[failed]) == ["action: add_route on network 7 failed: locked"]
    assert said(now=1600.0, actions=[failed]) == []
    assert said(actions=[{**failed, "error": None}]) == []


def test_certificates_faults_and_quota():
    error = {"name": "shop", "status": {"error": {"message": "no DNS zone"}}}
    assert said(certificates=[error, {"name": "up", "status": None}]) == [
        "certificate: shop was not issued: no DNS zone"
    ]
    rule = {"id": 3, "method": "GET", "path": "/servers", "command": "", "seen": 5, "hits": 2}
    assert said(faults=[rule, {**rule, "hits": 0}]) == [
        "fault rule: 3 applied to 2 of 5 requests: GET /servers"
    ]
    assert said(quota=[{"project": "p", "limit": 3600, "remaining": 359}]) == [
        "quota: p has 359 of 3600 requests left"
    ]
    assert said(quota=[{"project": "p", "limit": 3600, "remaining": 360}]) == []
    assert said(quota=[{"project": "p", "limit": 0, "remaining": 0}]) == []


async def test_objects_are_sorted_by_name(emulator: Emulator):
    for name in ("worker-10", "worker-9", "control"):
        await emulator.make_server(name=name)
    servers = (await emulator.ok("GET", "/_sandbox/overview"))["servers"]
    assert [one["name"] for one in servers] == ["control", "worker-9", "worker-10"]
    await emulator.ok("POST", f"/servers/{servers[2]['id']}/actions/poweroff")
    again = (await emulator.ok("GET", "/_sandbox/overview"))["servers"]
    assert [one["name"] for one in again] == ["control", "worker-9", "worker-10"]
