import asyncio
from ipaddress import IPv6Address, IPv6Network
from random import random
from typing import Any

import pytest
from cloud_emulator import BY_LABEL, LB, SERVICE, Emulator, Made, RecordingBackend, Start, server_target

from hetzner_emulator.backend import BackendError, LoadBalancerSpec
from hetzner_emulator.models.primary_ips import PrimaryIp


async def make(emulator: Emulator, **more: Any) -> Made:
    return await emulator.make("/load_balancers", **LB, **more)


async def deny(expected: Any, emulator: Emulator, balancer: Made, action: str, **body: Any) -> None:
    await emulator.deny(expected, f"{balancer.path}/actions/{action}", **body)


async def managed(emulator: Emulator) -> int:
    return (await emulator.make("/certificates", name="c", type="managed", domain_names=["a.de"]))["id"]


def ip_target(ip: str) -> dict[str, Any]:
    return {"type": "ip", "ip": {"ip": ip}}


async def test_everything_inline(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    server = await emulator.make_server(networks=[network["id"]])
    balancer = await make(
        emulator,
        network=network["id"],
        services=[SERVICE],
        targets=[server_target(server, use_private_ip=True)],
        labels={"a": "b"},
        public_interface=False,
        algorithm={"type": "least_connections"},
    )
    assert balancer["private_net"] == [{"network": network["id"], "ip": "10.0.0.3"}]
    assert balancer["services"] == [SERVICE]
    assert balancer["targets"][0]["health_status"] == [{"listen_port": 80, "status": "healthy"}]
    assert balancer["public_net"]["enabled"] is False
    assert balancer["algorithm"] == {"type": "least_connections"}
    for holder in (network, server):
        assert (await emulator.get(holder.path))["load_balancers"] == [balancer["id"]]


async def test_services_have_defaults_and_updates_are_partial(emulator: Emulator):
    path = (await make(emulator)).path
    shown = await emulator.act(path, "add_service", protocol="http", destination_port=8080)
    (service,) = shown["services"]
    assert service["listen_port"] == 80
    http = {"cookie_name": "HCLBSTICKY", "cookie_lifetime": 300, "timeout_idle": 50, "certificates": []}
    assert service["http"] == {**http, "sticky_sessions": False, "redirect_http": False}
    listed = await emulator.official(lambda client: client.load_balancers.get_all())
    assert [s.http.redirect_http for one in listed for s in one.services] == [False]
    assert service["health_check"]["http"]["status_codes"] == ["2??", "3??"]
    update = {"listen_port": 80, "http": {"sticky_sessions": True}, "health_check": {"retries": 5}}
    (changed,) = (await emulator.act(path, "update_service", **update))["services"]
    assert changed["http"] == {**service["http"], "sticky_sessions": True}
    assert changed["health_check"] == {**service["health_check"], "retries": 5}
    assert changed["destination_port"] == 8080
    (plain,) = (await emulator.act(path, "update_service", listen_port=80, protocol="tcp"))["services"]
    assert "http" not in plain


async def test_health_checks_with_wildcards_and_without_a_host(emulator: Emulator):
    path = (await make(emulator)).path
    asked = {"domain": "a.de", "path": "/", "status_codes": ["2*", "30?", "*"]}
    service = {**SERVICE, "health_check": {**SERVICE["health_check"], "protocol": "http", "http": asked}}
    (shown,) = (await emulator.act(path, "add_service", **service))["services"]
    assert {key: shown["health_check"]["http"][key] for key in asked} == asked
    for http, domain in (({"path": "/x"}, "a.de"), ({"domain": None}, None), ({"path": "/y"}, None)):
        update = {"listen_port": shown["listen_port"], "health_check": {"http": http}}
        (changed,) = (await emulator.act(path, "update_service", **update))["services"]
        assert changed["health_check"]["http"]["domain"] == domain


async def test_a_port_has_one_service(emulator: Emulator):
    balancer = await make(emulator, services=[SERVICE])
    for action in ("update_service", "delete_service"):
        await deny("not_found", emulator, balancer, action, listen_port=81)
        await deny("invalid_input", emulator, balancer, action)
    await deny((412, "source_port_already_used"), emulator, balancer, "add_service", **SERVICE)
    http = {"certificates": [await managed(emulator)]}
    https = {"protocol": "https", "listen_port": 443}
    redirect = {"redirect_http": True}
    used = (412, "source_port_already_used")
    await deny(used, emulator, balancer, "add_service", **https, http=http | redirect)
    await emulator.act(balancer.path, "add_service", **https, http=http)
    update = {"listen_port": 443, "http": redirect}
    await deny((422, "source_port_already_used"), emulator, balancer, "update_service", **update)


async def test_targets_by_server(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24")
    server = await emulator.make_server("a", networks=[network["id"]])
    hidden = await emulator.make_server("b", networks=[network["id"]], public_net={"enable_ipv4": False})
    loose, balancer = await emulator.make_server("c"), await make(emulator)

    async def denied(code: str, target: dict[str, Any], action: str = "add_target") -> None:
        await deny(code, emulator, balancer, action, **target)

    public, private = server_target(server), server_target(hidden, use_private_ip=True)
    await emulator.act(balancer.path, "add_target", **public)
    await denied("target_already_defined", public)
    await denied("resolve_cloud_public_targets_error", server_target(hidden))
    await denied("load_balancer_not_attached_to_network", private)
    await emulator.act(balancer.path, "attach_to_network", network=network["id"], ip="10.0.0.200")
    await emulator.act(balancer.path, "add_target", **private)
    await denied("resolve_cloud_private_targets_error", server_target(loose, use_private_ip=True))
    await denied("targets_without_use_private_ip", {}, "disable_public_interface")
    await emulator.act(balancer.path, "remove_target", **public)
    await denied("not_found", public, "remove_target")
    shown = await emulator.act(balancer.path, "disable_public_interface")
    assert shown["public_net"]["enabled"] is False
    await denied("load_balancer_public_interface_disabled", server_target(loose))
    await emulator.act(balancer.path, "enable_public_interface")


async def test_targets_by_label_follow_labels(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    server = await emulator.make_server("a", labels={"role": "web"})
    balancer = await make(emulator, services=[SERVICE], targets=[BY_LABEL])
    (shown,) = balancer["targets"]
    assert [nested["server"]["id"] for nested in shown["targets"]] == [server["id"]]
    assert shown["targets"][0]["health_status"] == [{"listen_port": 80, "status": "healthy"}]
    other = await emulator.make_server("b")
    await emulator.ok("PUT", other.path, {"labels": {"role": "web"}})
    assert {t.server_id for t in last(backend).targets} == {server["id"], other["id"]}
    sent = len(backend.of("put_load_balancer"))
    await emulator.ok("PUT", other.path, {"labels": {"role": "web", "x": "y"}})
    assert len(backend.of("put_load_balancer")) == sent, "nothing changed"
    await emulator.ok("DELETE", server.path)
    assert {t.server_id for t in last(backend).targets} == {other["id"]}
    new = await emulator.make_server("c", labels={"role": "web"})
    assert {t.server_id for t in last(backend).targets} == {other["id"], new["id"]}
    await emulator.ok("DELETE", new.path)
    await emulator.act(other.path, "poweroff")
    (shown,) = (await emulator.get(balancer.path))["targets"]
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

    async def changing(self, emulator: Emulator, balancer: Made, action: str, **body: Any) -> None:
        """Begin a change that it makes no sooner than it is free again."""
        self.begun.clear()
        self.free.clear()
        await emulator.ok("POST", f"{balancer.path}/actions/{action}", body)
        await self.begun.wait()

    async def changed(self, emulator: Emulator, balancer: Made) -> dict[str, Any]:
        """Make the change; returns the load balancer after it."""
        self.free.set()
        await emulator.cloud.actions.settle()
        return await emulator.get(balancer.path)


@pytest.fixture
def backend() -> Slow:
    return Slow()


@pytest.fixture
async def slow(start: Start, backend: Slow) -> Emulator:
    return await start(backend)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_server_created_during_a_change_becomes_a_target(slow: Emulator, backend: Slow, fails: bool):
    backend.refuses_ports = fails
    balancer = await make(slow, targets=[BY_LABEL])
    await backend.changing(slow, balancer, "add_service", **SERVICE)
    server = await slow.make_server("a", labels={"role": "web"})
    await backend.changed(slow, balancer)
    assert {t.server_id for t in last(backend).targets} == {server["id"]}
    assert [service.listen_port for service in last(backend).services] == ([] if fails else [80])


async def test_a_server_deleted_during_a_change_is_removed_from_the_targets(slow: Emulator, backend: Slow):
    old, kept, new = [await slow.make_server(name) for name in ("old", "kept", "new")]
    balancer = await make(slow, targets=[server_target(old), server_target(kept)])
    await backend.changing(slow, balancer, "add_target", **server_target(new))
    for server in (old, new):
        await slow.ok("DELETE", server.path)
    shown = await backend.changed(slow, balancer)
    assert [target["server"]["id"] for target in shown["targets"]] == [kept["id"]]
    assert {t.server_id for t in last(backend).targets} == {kept["id"]}


async def test_a_network_deleted_during_an_attachment_has_no_members(slow: Emulator, backend: Slow):
    network, balancer = await slow.make_network("net", "10.0.0.0/24"), await make(slow)
    await backend.changing(slow, balancer, "attach_to_network", network=network["id"])
    await slow.ok("DELETE", network.path)
    assert (await backend.changed(slow, balancer))["private_net"] == []
    assert last(backend).private == ()


async def test_a_certificate_is_locked_while_a_service_gets_it(slow: Emulator, backend: Slow):
    certificate, balancer = await managed(slow), await make(slow)
    https = {"protocol": "https", "listen_port": 443, "http": {"certificates": [certificate]}}
    await backend.changing(slow, balancer, "add_service", **https)
    await slow.expect("locked", "DELETE", f"/certificates/{certificate}")
    shown = await backend.changed(slow, balancer)
    assert shown["services"][0]["http"]["certificates"] == [certificate]
    await slow.expect("resource_in_use", "DELETE", f"/certificates/{certificate}")
    used_by = (await slow.get(f"/certificates/{certificate}"))["used_by"]
    assert used_by == [{"id": balancer["id"], "type": "load_balancer"}]
    await slow.ok("DELETE", balancer.path)
    await slow.ok("DELETE", f"/certificates/{certificate}")


async def test_targets_by_address(emulator: Emulator):
    await emulator.ok("POST", "/_sandbox/robot/servers", {"name": "metal", "ip": "192.0.2.7"})
    balancer = await make(emulator, services=[SERVICE])
    shown = await emulator.act(balancer.path, "add_target", **ip_target("192.0.2.7"))
    health = [{"listen_port": 80, "status": "healthy"}]
    assert shown["targets"] == [{**ip_target("192.0.2.7"), "health_status": health}]
    network = await emulator.make_network("net", "10.0.0.0/24")
    await emulator.act(balancer.path, "attach_to_network", network=network["id"])
    inside, outside = ip_target("10.0.1.9"), ip_target("10.0.2.9")
    await deny("network_has_no_vswitch_subnet", emulator, balancer, "add_target", **inside)
    await emulator.ok("PUT", "/_sandbox/settings", {"vswitches": [7]})
    subnet = {"type": "vswitch", "network_zone": "eu-central", "ip_range": "10.0.1.0/24", "vswitch_id": 7}
    await emulator.act(network.path, "add_subnet", **subnet)
    await emulator.act(balancer.path, "add_target", **inside)
    await deny("ip_not_in_vswitch_subnet", emulator, balancer, "add_target", **outside)


async def test_limits_follow_the_type(emulator: Emulator):
    *first, one_more = [server_target(await emulator.make_server(f"s{i}")) for i in range(26)]
    balancer = await make(emulator, targets=first)
    await deny("resource_limit_exceeded", emulator, balancer, "add_target", **one_more)
    await emulator.act(balancer.path, "change_type", load_balancer_type="lb21")
    await emulator.act(balancer.path, "add_target", **one_more)
    await deny("invalid_load_balancer_type", emulator, balancer, "change_type", load_balancer_type="lb11")


async def test_one_network_at_a_time(emulator: Emulator):
    network = await emulator.make_network("net", "10.0.0.0/24", "10.0.7.0/24")
    other = (await emulator.make_network("other", "10.0.1.0/24"))["id"]
    balancer = await make(emulator)
    own = {"network": network["id"]}
    shown = await emulator.act(balancer.path, "attach_to_network", **own, ip_range="10.0.0.0/24")
    assert shown["private_net"][0]["ip"] == "10.0.0.2"
    await deny("load_balancer_already_attached", emulator, balancer, "attach_to_network", network=other)
    code = "load_balancer_not_attached_to_network"
    await deny(code, emulator, balancer, "detach_from_network", network=other)
    assert (await emulator.act(balancer.path, "detach_from_network", **own))["private_net"] == []
    await emulator.act(balancer.path, "attach_to_network", **own)
    await emulator.ok("DELETE", network.path)
    assert (await emulator.get(balancer.path))["private_net"] == []


async def test_reverse_names(emulator: Emulator):
    balancer = await make(emulator)
    public = balancer["public_net"]
    default = public["ipv4"]["dns_ptr"]
    assert default.endswith(".clients.your-server.de")

    async def named(family: str, ip: str, name: str | None) -> str | None:
        shown = await emulator.act(balancer.path, "change_dns_ptr", ip=ip, dns_ptr=name)
        return shown["public_net"][family]["dns_ptr"]

    for family, unnamed in (("ipv4", default), ("ipv6", None)):
        ip = public[family]["ip"]
        assert await named(family, ip, "lb.example.com") == "lb.example.com"
        if family == "ipv6":
            again = IPv6Address(ip).exploded
            assert await named(family, again, "other.example.com") == "other.example.com"
        assert await named(family, ip, None) == unnamed
    await deny("invalid_input", emulator, balancer, "change_dns_ptr", ip="1.2.3.4", dns_ptr="x")


async def test_the_backend_gets_the_complete_service(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    http = {"certificates": [await managed(emulator)], "redirect_http": True, "sticky_sessions": True}
    check = {"protocol": "http", "http": {"domain": "a.example", "status_codes": ["2??", "404"]}}
    https = {"protocol": "https", "destination_port": 8443, "http": http, "health_check": check}
    await make(emulator, services=[https])
    (sent,) = last(backend).services
    assert (sent.protocol, sent.listen_port, sent.destination_port) == ("https", 443, 8443)
    assert sent.redirect_http
    assert sent.sticky_sessions
    assert "BEGIN CERTIFICATE" in sent.certificates[0]
    assert "BEGIN PRIVATE KEY" in sent.certificates[0]
    assert (sent.health_check.domain, sent.health_check.status_codes) == ("a.example", ("2??", "404"))


async def test_on_primary_ips(emulator: Emulator):
    own = {family: await new_ip(emulator, family) for family in ("ipv4", "ipv6")}
    wanted = {family: ip["id"] for family, ip in own.items()}
    balancer = await make(emulator, public_net=wanted)
    public, ipv4, ipv6 = balancer["public_net"], own["ipv4"], own["ipv6"]
    assert {family: public[family]["id"] for family in own} == wanted
    assert public["ipv4"]["ip"] == ipv4["ip"]
    assert IPv6Address(public["ipv6"]["ip"]) in IPv6Network(ipv6["ip"])
    assert [public[family]["blocked"] for family in own] == [False, False]
    for ip in own.values():
        shown = await emulator.get(ip.path)
        assert (shown["assignee_id"], shown["assignee_type"]) == (balancer["id"], "load_balancer")
        await emulator.deny("invalid_input", f"{ip.path}/actions/unassign")  # it stays for its whole life
        await emulator.expect("must_be_unassigned", "DELETE", ip.path)
    for path, name in ((balancer.path, "lb.example.com"), (ipv4.path, "other.example.com")):
        body = {"ip": ipv4["ip"], "dns_ptr": name}
        await emulator.act(path, "change_dns_ptr", **body)
        assert (await emulator.get(balancer.path))["public_net"]["ipv4"]["dns_ptr"] == name
        assert (await emulator.get(ipv4.path))["dns_ptr"] == [body]
    await emulator.ok("PUT", ipv6.path, {"auto_delete": True})
    await emulator.ok("DELETE", balancer.path)
    assert (await emulator.get(ipv4.path))["assignee_type"] == "unassigned"
    await emulator.expect("not_found", "GET", ipv6.path)
    again = await make(emulator, public_net={"ipv4": ipv4["id"]})
    assert again["public_net"]["ipv4"]["ip"] == ipv4["ip"], "it is free again"
    assert again["public_net"]["ipv6"]["id"] is None, "one that Hetzner manages"


async def test_refused_primary_ips(emulator: Emulator):
    blocked, elsewhere = await new_ip(emulator), await new_ip(emulator, location="hel1")
    record = emulator.cloud.store.find(PrimaryIp, blocked["id"])
    record.blocked = True
    emulator.cloud.store.put(record)
    assert (await emulator.get(blocked.path))["blocked"] is True
    taken = (await emulator.make_server())["public_net"]["ipv4"]["id"]
    for wanted, code in (
        ({"ipv6": (await new_ip(emulator))["id"]}, "primary_ip_version_mismatch"),
        ({"ipv4": taken}, "primary_ip_assigned"),
        ({"ipv4": elsewhere["id"]}, "primary_ip_datacenter_mismatch"),
        ({"ipv4": blocked["id"]}, "invalid_input"),
        ({"ipv4": 4711}, "not_found"),
    ):
        await emulator.deny(code, "/load_balancers", **LB, public_net=wanted)
    assert await emulator.get("/load_balancers") == []


async def new_ip(emulator: Emulator, family: str = "ipv4", location: str = "fsn1") -> Made:
    name = f"{family}-{location}-{random()}"
    return await emulator.make("/primary_ips", name=name, type=family, location=location)
