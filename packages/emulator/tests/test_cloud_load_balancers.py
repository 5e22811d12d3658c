from __future__ import annotations

import asyncio
from ipaddress import IPv6Address, IPv6Network
from random import random
from typing import Any

import pytest
from cloud_emulator import Emulator, RecordingBackend, Start

from hetzner_emulator.backend import BackendError, LoadBalancerSpec
from hetzner_emulator.models.primary_ips import PrimaryIp

CHECK = {"protocol": "tcp", "port": 30080, "interval": 15, "timeout": 10, "retries": 3}
SERVICE = {
    "protocol": "tcp",
    "listen_port": 80,
    "destination_port": 30080,
    "proxyprotocol": False,
    "health_check": CHECK,
}


async def make(emulator: Emulator, name: str = "lb", **more: Any) -> dict[str, Any]:
    body = {"name": name, "load_balancer_type": "lb11", "location": "fsn1", **more}
    return (await emulator.ok("POST", "/load_balancers", body))["load_balancer"]


async def act(emulator: Emulator, balancer: int, action: str, body: Any = None) -> dict[str, Any]:
    answer = await emulator.ok("POST", f"/load_balancers/{balancer}/actions/{action}", body)
    assert answer["action"]["status"] == "success", answer
    return await emulator.get(f"/load_balancers/{balancer}")


async def deny(expected: Any, emulator: Emulator, balancer: int, action: str, body: Any = None) -> None:
    await emulator.expect(expected, "POST", f"/load_balancers/{balancer}/actions/{action}", body)


def server_target(server: dict[str, Any], *, private: bool = False) -> dict[str, Any]:
    return {"type": "server", "server": {"id": server["id"]}, "use_private_ip": private}


async def test_everything_inline(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    server = await emulator.make_server(networks=[network["id"]])
    balancer = await make(
        emulator,
        network=network["id"],
        services=[SERVICE],
        targets=[server_target(server, private=True)],
        labels={"a": "b"},
        public_interface=False,
        algorithm={"type": "least_connections"},
    )
    assert balancer["private_net"] == [{"network": network["id"], "ip": "10.0.0.3"}]
    assert balancer["services"] == [SERVICE]
    assert balancer["targets"][0]["health_status"] == [{"listen_port": 80, "status": "healthy"}]
    assert balancer["public_net"]["enabled"] is False
    assert balancer["algorithm"] == {"type": "least_connections"}
    shown = await emulator.get(f"/networks/{network['id']}")
    assert shown["load_balancers"] == [balancer["id"]]
    shown = await emulator.get(f"/servers/{server['id']}")
    assert shown["load_balancers"] == [balancer["id"]]


async def test_services_have_defaults_and_updates_are_partial(emulator: Emulator):
    balancer = await make(emulator)
    shown = await act(emulator, balancer["id"], "add_service", {"protocol": "http", "destination_port": 8080})
    (service,) = shown["services"]
    assert service["listen_port"] == 80
    assert service["http"] == {
        "cookie_name": "HCLBSTICKY",
        "cookie_lifetime": 300,
        "timeout_idle": 50,
        "sticky_sessions": False,
        "certificates": [],
        "redirect_http": False,
    }
    listed = await emulator.official(lambda client: client.load_balancers.get_all())
    assert [s.http.redirect_http for one in listed for s in one.services] == [False]
    assert service["health_check"]["http"]["status_codes"] == ["2??", "3??"]
    update = {"listen_port": 80, "http": {"sticky_sessions": True}, "health_check": {"retries": 5}}
    (changed,) = (await act(emulator, balancer["id"], "update_service", update))["services"]
    assert changed["http"] == {**service["http"], "sticky_sessions": True}
    assert changed["health_check"] == {**service["health_check"], "retries": 5}
    assert changed["destination_port"] == 8080
    (plain,) = (
        await act(emulator, balancer["id"], "update_service", {"listen_port": 80, "protocol": "tcp"})
    )["services"]
    assert "http" not in plain


async def test_health_checks_with_wildcards_and_without_a_host(emulator: Emulator):
    balancer = await make(emulator)
    asked = {"domain": "a.de", "path": "/", "status_codes": ["2*", "30?", "*"]}
    service = {**SERVICE, "health_check": {**CHECK, "protocol": "http", "http": asked}}
    (shown,) = (await act(emulator, balancer["id"], "add_service", service))["services"]
    assert {key: shown["health_check"]["http"][key] for key in asked} == asked
    for http, domain in (({"path": "/x"}, "a.de"), ({"domain": None}, None), ({"path": "/y"}, None)):
        update = {"listen_port": shown["listen_port"], "health_check": {"http": http}}
        (changed,) = (await act(emulator, balancer["id"], "update_service", update))["services"]
        assert changed["health_check"]["http"]["domain"] == domain


async def test_unknown_services(emulator: Emulator):
    balancer = await make(emulator)
    for action in ("update_service", "delete_service"):
        await deny("not_found", emulator, balancer["id"], action, {"listen_port": 81})
        await deny("invalid_input", emulator, balancer["id"], action, {})


async def test_a_port_has_one_service(emulator: Emulator):
    balancer = await make(emulator, services=[SERVICE])
    await deny((412, "source_port_already_used"), emulator, balancer["id"], "add_service", SERVICE)
    certificate = (
        await emulator.ok("POST", "/certificates", {"name": "c", "type": "managed", "domain_names": ["a.de"]})
    )["certificate"]
    https = {
        "protocol": "https",
        "listen_port": 443,
        "http": {"certificates": [certificate["id"]], "redirect_http": True},
    }
    await deny((412, "source_port_already_used"), emulator, balancer["id"], "add_service", https)
    quiet = {**https, "http": {"certificates": [certificate["id"]]}}
    await act(emulator, balancer["id"], "add_service", quiet)
    update = {"listen_port": 443, "http": {"redirect_http": True}}
    await deny((422, "source_port_already_used"), emulator, balancer["id"], "update_service", update)


async def test_targets_by_server(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    server = await emulator.make_server("a", networks=[network["id"]])
    hidden = await emulator.make_server("b", networks=[network["id"]], public_net={"enable_ipv4": False})
    loose = await emulator.make_server("c")
    identity = (await make(emulator))["id"]
    await act(emulator, identity, "add_target", server_target(server))
    await deny("target_already_defined", emulator, identity, "add_target", server_target(server))
    private = server_target(hidden, private=True)
    await deny("resolve_cloud_public_targets_error", emulator, identity, "add_target", server_target(hidden))
    await deny("load_balancer_not_attached_to_network", emulator, identity, "add_target", private)
    await act(emulator, identity, "attach_to_network", {"network": network["id"], "ip": "10.0.0.200"})
    await act(emulator, identity, "add_target", private)
    await deny(
        "resolve_cloud_private_targets_error",
        emulator,
        identity,
        "add_target",
        server_target(loose, private=True),
    )
    await deny("targets_without_use_private_ip", emulator, identity, "disable_public_interface")
    await act(emulator, identity, "remove_target", server_target(server))
    await deny("not_found", emulator, identity, "remove_target", server_target(server))
    shown = await act(emulator, identity, "disable_public_interface")
    assert shown["public_net"]["enabled"] is False
    await deny(
        "load_balancer_public_interface_disabled", emulator, identity, "add_target", server_target(loose)
    )
    await act(emulator, identity, "enable_public_interface")


async def test_targets_by_label_follow_labels(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    server = await emulator.make_server("a", labels={"role": "web"})
    target = {"type": "label_selector", "label_selector": {"selector": "role=web"}}
    balancer = await make(emulator, services=[SERVICE], targets=[target])
    (shown,) = balancer["targets"]
    assert [nested["server"]["id"] for nested in shown["targets"]] == [server["id"]]
    assert shown["targets"][0]["health_status"] == [{"listen_port": 80, "status": "healthy"}]
    other = await emulator.make_server("b")
    await emulator.ok("PUT", f"/servers/{other['id']}", {"labels": {"role": "web"}})
    assert {t.server_id for t in last(backend).targets} == {server["id"], other["id"]}
    sent = len(backend.of("put_load_balancer"))
    await emulator.ok("PUT", f"/servers/{other['id']}", {"labels": {"role": "web", "x": "y"}})
    assert len(backend.of("put_load_balancer")) == sent, "nothing changed"
    await emulator.ok("DELETE", f"/servers/{server['id']}")
    assert {t.server_id for t in last(backend).targets} == {other["id"]}
    await emulator.ok("POST", f"/servers/{other['id']}/actions/poweroff")
    (shown,) = (await emulator.get(f"/load_balancers/{balancer['id']}"))["targets"]
    health = {"listen_port": 80, "status": "unhealthy", "detail": "layer4_timeout"}
    assert shown["targets"][0]["health_status"][0] == health


def last(backend: RecordingBackend) -> LoadBalancerSpec:
    return backend.of("put_load_balancer")[-1]


class Slow(RecordingBackend):
    """Holds changes of load balancers while it isn't free; can refuse services."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.free = asyncio.Event(), asyncio.Event()
        self.free.set()
        self.refuses_ports = False

    async def before(self, name: str, *arguments: Any) -> None:
        if name == "put_load_balancer":
            self.begun.set()
            await self.free.wait()
            if arguments[0].services and self.refuses_ports:
                raise BackendError("the port is taken")


async def changing(emulator: Emulator, backend: Slow, balancer: int, action: str, body: Any) -> None:
    """Begin a change that the backend makes no sooner than it is free again."""
    backend.begun.clear()
    backend.free.clear()
    await emulator.ok("POST", f"/load_balancers/{balancer}/actions/{action}", body)
    await backend.begun.wait()


async def changed(emulator: Emulator, backend: Slow, balancer: int) -> dict[str, Any]:
    """Let the backend make the change; returns the load balancer after it."""
    backend.free.set()
    await emulator.cloud.actions.settle()
    return await emulator.get(f"/load_balancers/{balancer}")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_server_created_during_a_change_becomes_a_target(start: Start, fails: bool):
    backend = Slow()
    backend.refuses_ports = fails
    emulator = await start(backend)
    target = {"type": "label_selector", "label_selector": {"selector": "role=web"}}
    identity = (await make(emulator, targets=[target]))["id"]
    await changing(emulator, backend, identity, "add_service", SERVICE)
    server = await emulator.make_server("a", labels={"role": "web"})
    await changed(emulator, backend, identity)
    assert {t.server_id for t in last(backend).targets} == {server["id"]}
    assert [service.listen_port for service in last(backend).services] == ([] if fails else [80])


async def test_a_server_deleted_during_a_change_is_removed_from_the_targets(start: Start):
    backend = Slow()
    emulator = await start(backend)
    old, kept, new = [await emulator.make_server(name) for name in ("old", "kept", "new")]
    identity = (await make(emulator, targets=[server_target(old), server_target(kept)]))["id"]
    await changing(emulator, backend, identity, "add_target", server_target(new))
    for server in (old, new):
        await emulator.ok("DELETE", f"/servers/{server['id']}")
    shown = await changed(emulator, backend, identity)
    assert [target["server"]["id"] for target in shown["targets"]] == [kept["id"]]
    assert {t.server_id for t in last(backend).targets} == {kept["id"]}


async def test_a_network_deleted_during_an_attachment_has_no_members(start: Start):
    backend = Slow()
    emulator = await start(backend)
    network = await emulator.make_network("net", "10.0.0.0/24")
    identity = (await make(emulator))["id"]
    await changing(emulator, backend, identity, "attach_to_network", {"network": network["id"]})
    await emulator.ok("DELETE", f"/networks/{network['id']}")
    assert (await changed(emulator, backend, identity))["private_net"] == []
    assert last(backend).private == ()


async def test_a_certificate_is_locked_while_a_service_gets_it(start: Start):
    backend = Slow()
    emulator = await start(backend)
    certificate = (await emulator.make("/certificates", name="c", type="managed", domain_names=["a.de"]))[
        "id"
    ]
    identity = (await make(emulator))["id"]
    https = {"protocol": "https", "listen_port": 443, "http": {"certificates": [certificate]}}
    await changing(emulator, backend, identity, "add_service", https)
    await emulator.expect("locked", "DELETE", f"/certificates/{certificate}")
    shown = await changed(emulator, backend, identity)
    assert shown["services"][0]["http"]["certificates"] == [certificate]
    await emulator.expect("resource_in_use", "DELETE", f"/certificates/{certificate}")


async def test_targets_by_address(emulator: Emulator):
    robot = {"name": "metal", "ip": "192.0.2.7"}
    await emulator.ok("POST", "/_sandbox/robot/servers", robot)
    identity = (await make(emulator, services=[SERVICE]))["id"]
    shown = await act(emulator, identity, "add_target", {"type": "ip", "ip": {"ip": "192.0.2.7"}})
    assert shown["targets"] == [
        {"type": "ip", "ip": {"ip": "192.0.2.7"}, "health_status": [{"listen_port": 80, "status": "healthy"}]}
    ]
    network = await emulator.make_network("net", "10.0.0.0/24")
    await act(emulator, identity, "attach_to_network", {"network": network["id"]})
    inside = {"type": "ip", "ip": {"ip": "10.0.1.9"}}
    await deny("network_has_no_vswitch_subnet", emulator, identity, "add_target", inside)
    await emulator.ok("PUT", "/_sandbox/settings", {"vswitches": [7]})
    subnet = {"type": "vswitch", "network_zone": "eu-central", "ip_range": "10.0.1.0/24", "vswitch_id": 7}
    await emulator.ok("POST", f"/networks/{network['id']}/actions/add_subnet", subnet)
    await act(emulator, identity, "add_target", inside)
    outside = {"type": "ip", "ip": {"ip": "10.0.2.9"}}
    await deny("ip_not_in_vswitch_subnet", emulator, identity, "add_target", outside)


async def test_limits_follow_the_type(emulator: Emulator):
    servers = [await emulator.make_server(f"s{i}") for i in range(26)]
    balancer = await make(emulator, targets=[server_target(server) for server in servers[:25]])
    identity = balancer["id"]
    await deny("resource_limit_exceeded", emulator, identity, "add_target", server_target(servers[25]))
    await act(emulator, identity, "change_type", {"load_balancer_type": "lb21"})
    await act(emulator, identity, "add_target", server_target(servers[25]))
    await deny(
        "invalid_load_balancer_type", emulator, identity, "change_type", {"load_balancer_type": "lb11"}
    )


async def test_one_network_at_a_time(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24", "10.0.7.0/24")
    other = await emulator.make_network("other", "10.0.1.0/24")
    identity = (await make(emulator))["id"]
    shown = await act(
        emulator, identity, "attach_to_network", {"network": network["id"], "ip_range": "10.0.0.0/24"}
    )
    assert shown["private_net"][0]["ip"] == "10.0.0.2"
    body = {"network": other["id"]}
    await deny("load_balancer_already_attached", emulator, identity, "attach_to_network", body)
    await deny("load_balancer_not_attached_to_network", emulator, identity, "detach_from_network", body)
    assert (await act(emulator, identity, "detach_from_network", {"network": network["id"]}))[
        "private_net"
    ] == []
    await act(emulator, identity, "attach_to_network", {"network": network["id"]})
    await emulator.ok("DELETE", f"/networks/{network['id']}")
    assert (await emulator.get(f"/load_balancers/{identity}"))["private_net"] == []


async def test_reverse_names(emulator: Emulator):
    balancer = await make(emulator)
    identity, public = balancer["id"], balancer["public_net"]
    default = public["ipv4"]["dns_ptr"]
    assert default.endswith(".clients.your-server.de")
    for family in ("ipv4", "ipv6"):
        body = {"ip": public[family]["ip"], "dns_ptr": "lb.example.com"}
        shown = await act(emulator, identity, "change_dns_ptr", body)
        assert shown["public_net"][family]["dns_ptr"] == "lb.example.com"
        if family == "ipv6":
            again = {"ip": IPv6Address(body["ip"]).exploded, "dns_ptr": "other.example.com"}
            shown = await act(emulator, identity, "change_dns_ptr", again)
            assert shown["public_net"][family]["dns_ptr"] == "other.example.com"
        shown = await act(emulator, identity, "change_dns_ptr", {**body, "dns_ptr": None})
        assert shown["public_net"][family]["dns_ptr"] == (default if family == "ipv4" else None)
    await deny("invalid_input", emulator, identity, "change_dns_ptr", {"ip": "1.2.3.4", "dns_ptr": "x"})


async def test_the_backend_gets_the_complete_service(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    certificate = await emulator.make(
        "/certificates", name="c", type="managed", domain_names=["a.example.com"]
    )
    service = {
        "protocol": "https",
        "destination_port": 8443,
        "http": {"certificates": [certificate["id"]], "redirect_http": True, "sticky_sessions": True},
    }
    await make(emulator, services=[service])
    (sent,) = last(backend).services
    assert (sent.protocol, sent.listen_port, sent.destination_port, sent.redirect_http) == (
        "https",
        443,
        8443,
        True,
    )
    assert sent.sticky_sessions
    assert "BEGIN CERTIFICATE" in sent.certificates[0]
    assert "BEGIN PRIVATE KEY" in sent.certificates[0]
    assert sent.health_check.status_codes == ("2??", "3??")


async def test_on_primary_ips(emulator: Emulator):
    own = {family: await new_ip(emulator, family) for family in ("ipv4", "ipv6")}
    wanted = {family: ip["id"] for family, ip in own.items()}
    balancer = await make(emulator, public_net=wanted)
    public = balancer["public_net"]
    assert {family: public[family]["id"] for family in own} == wanted
    assert public["ipv4"]["ip"] == own["ipv4"]["ip"]
    assert IPv6Address(public["ipv6"]["ip"]) in IPv6Network(own["ipv6"]["ip"])
    assert [public[family]["blocked"] for family in own] == [False, False]
    for identity in wanted.values():
        ip = await get_ip(emulator, identity)
        assert (ip["assignee_id"], ip["assignee_type"]) == (balancer["id"], "load_balancer")
        error = await emulator.refused("POST", f"/primary_ips/{identity}/actions/unassign")
        assert error["code"] == "invalid_input", "it stays for the load balancer's whole life"
        await emulator.expect("must_be_unassigned", "DELETE", f"/primary_ips/{identity}")
    body = {"ip": own["ipv4"]["ip"], "dns_ptr": "lb.example.com"}
    for path in (f"/load_balancers/{balancer['id']}", f"/primary_ips/{wanted['ipv4']}"):
        await emulator.ok("POST", f"{path}/actions/change_dns_ptr", body)
        shown = await emulator.get(f"/load_balancers/{balancer['id']}")
        assert shown["public_net"]["ipv4"]["dns_ptr"] == body["dns_ptr"]
        assert (await get_ip(emulator, wanted["ipv4"]))["dns_ptr"] == [body]
        body["dns_ptr"] = "other.example.com"
    await emulator.ok("PUT", f"/primary_ips/{wanted['ipv6']}", {"auto_delete": True})
    await emulator.ok("DELETE", f"/load_balancers/{balancer['id']}")
    assert (await get_ip(emulator, wanted["ipv4"]))["assignee_type"] == "unassigned"
    await emulator.expect("not_found", "GET", f"/primary_ips/{wanted['ipv6']}")
    again = await make(emulator, public_net={"ipv4": wanted["ipv4"]})
    assert again["public_net"]["ipv4"]["ip"] == own["ipv4"]["ip"], "it is free again"
    assert again["public_net"]["ipv6"]["id"] is None, "one that Hetzner manages"


async def test_refused_primary_ips(emulator: Emulator):
    blocked, elsewhere = await new_ip(emulator), await new_ip(emulator, location="hel1")
    record = emulator.cloud.store.find(PrimaryIp, blocked["id"])
    record.blocked = True
    emulator.cloud.store.put(record)
    assert (await get_ip(emulator, blocked["id"]))["blocked"] is True
    taken = (await emulator.make_server())["public_net"]["ipv4"]["id"]
    for wanted, code in (
        ({"ipv6": (await new_ip(emulator))["id"]}, "primary_ip_version_mismatch"),
        ({"ipv4": taken}, "primary_ip_assigned"),
        ({"ipv4": elsewhere["id"]}, "primary_ip_datacenter_mismatch"),
        ({"ipv4": blocked["id"]}, "invalid_input"),
        ({"ipv4": 4711}, "not_found"),
    ):
        body = {"name": "lb", "load_balancer_type": "lb11", "location": "fsn1", "public_net": wanted}
        await emulator.expect(code, "POST", "/load_balancers", body)
    assert await emulator.get("/load_balancers") == []


async def new_ip(emulator: Emulator, family: str = "ipv4", location: str = "fsn1") -> dict[str, Any]:
    body = {"name": f"{family}-{location}-{random()}", "type": family, "location": location}
    return (await emulator.ok("POST", "/primary_ips", body))["primary_ip"]


async def get_ip(emulator: Emulator, identity: int) -> dict[str, Any]:
    return await emulator.get(f"/primary_ips/{identity}")
