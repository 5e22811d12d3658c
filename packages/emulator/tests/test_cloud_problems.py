from typing import Any

import pytest
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
    await emulator.ok("POST", f"{network.path}/actions/add_route", route)
    assert (await emulator.ok("GET", "/_sandbox/overview"))["problems"] == []
    await emulator.ok("POST", f"{made.path}/actions/poweroff")
    (one,) = (await emulator.ok("GET", "/_sandbox/overview"))["problems"]
    assert one == {"about": "server", "text": "web is off"}


def test_a_load_balancer_has_the_name_of_its_service():
    labels = {"ccm-from-scratch/namespace": "shop", "ccm-from-scratch/service": "web"}
    assert title({"name": "a0b1", "labels": labels}) == "shop/web"
    assert title({"name": "mine", "labels": {}}) == "mine"


GOOD, BAD = target(1, p80="healthy", p443="healthy"), target(2, p80="unhealthy", p443="unknown")
BOTH = target(2, p80="unhealthy", p443="unhealthy")
BEHIND = {"type": "label_selector", "targets": [BAD], "health_status": []}
ADDRESS = {"type": "ip", "ip": {"ip": "10.0.0.9"}, "health_status": BAD["health_status"]}
UNHEALTHY = "load balancer: lb, {}: 1 of {} targets unhealthy: {}"
SILENT = "load balancer: lb, port 80: the health of all targets is unknown"
UNKNOWN, HEALTHY = target(1, p80="unknown"), target(1, p80="healthy")
ROUTES = [{"destination": "10.1.0.0/24", "gateway": f"10.0.0.{number}"} for number in (2, 3)]
NETWORK = {"id": 7, "name": "net", "routes": ROUTES}
FAILED = {"command": "add_route", "resources": [{"type": "network", "id": 7}], "ended": 1000.0}
FAILED["error"] = {"message": "locked"}
FAILURE = {"error": {"message": "no DNS zone"}}
CERTIFICATES = [{"name": "shop", "status": FAILURE}, {"name": "up", "status": None}]
RULE = {"id": 3, "method": "GET", "path": "/servers", "command": "", "seen": 5, "hits": 2}
QUOTA = {"project": "p", "limit": 3600, "remaining": 359}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({"load_balancers": [balancer(GOOD, BAD, ports=(80, 443))]}, UNHEALTHY.format("port 80", 2, "s2")),
        ({"load_balancers": [balancer(BOTH, ports=(443, 80))]}, UNHEALTHY.format("ports 80, 443", 1, "s2")),
        ({"load_balancers": [balancer(BEHIND)]}, UNHEALTHY.format("port 80", 1, "s2")),
        ({"load_balancers": [balancer(ADDRESS)]}, UNHEALTHY.format("port 80", 1, "10.0.0.9")),
        ({"load_balancers": [balancer(UNKNOWN, UNKNOWN)]}, SILENT),
        ({"load_balancers": [balancer(target(1), target(1))]}, SILENT),
        ({"load_balancers": [balancer(UNKNOWN, HEALTHY)]}, ""),
        ({"load_balancers": [balancer()]}, "load balancer: lb has no targets"),
        ({"load_balancers": [balancer(ports=())]}, ""),
        ({"servers": [server(n, "off") for n in range(5)]}, "server: s0, s1, s2 and 2 more are off"),
        (
            {"networks": [NETWORK], "servers": [server(1, network=7, ip="10.0.0.2")]},
            "route: 10.1.0.0/24 in net uses the gateway 10.0.0.3, but no server has the gateway's address",
        ),
        ({"now": 1599.0, "actions": [FAILED]}, "action: add_route on network 7 failed: locked"),
        ({"now": 1600.0, "actions": [FAILED]}, ""),
        ({"actions": [{**FAILED, "error": None}]}, ""),
        ({"certificates": CERTIFICATES}, "certificate: shop was not issued: no DNS zone"),
        (
            {"faults": [RULE, {**RULE, "hits": 0}]},
            "fault rule: rule 3 applied to 2 of 5 matching requests: GET /servers",
        ),
        ({"quota": [QUOTA]}, "quota: project p has 359 of 3600 API requests left"),
        ({"quota": [{**QUOTA, "remaining": 360}]}, ""),
        ({"quota": [{**QUOTA, "limit": 0, "remaining": 0}]}, ""),
    ],
)
def test_problems(shown, expected):
    assert said(**{"servers": [server(1), server(2)], **shown}) == ([expected] if expected else [])


async def test_objects_are_sorted_by_name(emulator: Emulator):
    for name in ("worker-10", "worker-9", "control"):
        await emulator.make_server(name=name)
    servers = (await emulator.ok("GET", "/_sandbox/overview"))["servers"]
    assert [one["name"] for one in servers] == ["control", "worker-9", "worker-10"]
    await emulator.ok("POST", f"/servers/{servers[2]['id']}/actions/poweroff")
    again = (await emulator.ok("GET", "/_sandbox/overview"))["servers"]
    assert [one["name"] for one in again] == ["control", "worker-9", "worker-10"]
