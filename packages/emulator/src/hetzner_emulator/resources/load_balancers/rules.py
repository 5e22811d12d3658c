"""Decodes services and targets in requests, with Hetzner's defaults, and checks them against the limits."""

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from hetzner_emulator.api.call import Call
from hetzner_emulator.errors import ApiError, InvalidInput, LimitExceeded
from hetzner_emulator.models.catalogs import LOAD_BALANCER_TYPES
from hetzner_emulator.models.certificates import Certificate
from hetzner_emulator.models.load_balancers import LoadBalancer, Target, certificates_of
from hetzner_emulator.models.networks import Network
from hetzner_emulator.models.robot_servers import robot_addresses
from hetzner_emulator.models.servers import Server
from hetzner_emulator.resources.networks.rules import is_private
from hetzner_emulator.wire.fields import MISSING, Fields
from hetzner_emulator.wire.labels import parse_selector

PROTOCOLS = ("tcp", "http", "https")
DEFAULT_LISTEN_PORT = {"tcp": 0, "http": 80, "https": 443}
MAX_PORT = 65535
_STATUS_CODE = re.compile(r"[0-9?]{3}|(?=[0-9?]*\*)[0-9?*]{1,3}")


# field, default, minimum, maximum
_CHECK_NUMBERS = (("interval", 15, 3, 60), ("timeout", 10, 1, 60), ("retries", 3, 1, 5))
_HTTP_NUMBERS = (("cookie_lifetime", 300, 30, 86400), ("timeout_idle", 50, 30, 300))


def _numbers(
    fields: Fields, before: Mapping[str, Any], rows: Iterable[tuple[str, int, int, int]]
) -> dict[str, int]:
    return {
        name: fields.number(name, before.get(name, default), least=least, most=most)
        for name, default, least, most in rows
    }


def read_service(fields: Fields, present: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Decode a service; the present one, if any, has the values of missing fields."""
    old = present or {}
    protocol = fields.choice("protocol", PROTOCOLS, old.get("protocol", "tcp"), required=present is None)
    default_port = DEFAULT_LISTEN_PORT.get(protocol, 0)
    listen = fields.number(
        "listen_port",
        old.get("listen_port", default_port),
        least=1,
        most=MAX_PORT,
        required=present is not None or not default_port,
    )
    destination = fields.number(
        "destination_port",
        old.get("destination_port", 0 if protocol == "tcp" else 80),
        least=1,
        most=MAX_PORT,
        required=present is None and protocol == "tcp",
    )
    service: dict[str, Any] = {
        "protocol": protocol,
        "listen_port": listen,
        "destination_port": destination,
        "proxyprotocol": fields.flag("proxyprotocol", old.get("proxyprotocol", False)),
        "health_check": _health_check(fields.object("health_check"), protocol, destination, old),
    }
    if protocol != "tcp":
        service["http"] = _http(fields.object("http"), protocol, old.get("http", {}))
    return service


def _health_check(fields: Fields, protocol: str, destination: int, old: Mapping[str, Any]) -> dict[str, Any]:
    before: Mapping[str, Any] = old.get("health_check", {})
    default = before.get("protocol", "tcp" if protocol == "tcp" else "http")
    kind = fields.choice("protocol", ("tcp", "http"), default)
    check: dict[str, Any] = {
        "protocol": kind,
        "port": fields.number("port", before.get("port", destination), least=1, most=MAX_PORT),
        **_numbers(fields, before, _CHECK_NUMBERS),
    }
    if check["timeout"] > check["interval"]:
        fields.wrong("timeout", "must not be greater than interval")
    if kind == "http":
        check["http"] = _http_check(fields.object("http"), before.get("http", {}))
    return check


def _http_check(fields: Fields, before: Mapping[str, Any]) -> dict[str, Any]:
    codes = (
        fields.texts("status_codes")
        if "status_codes" in fields
        else before.get("status_codes", ["2??", "3??"])
    )
    if len(codes) > 20:
        fields.wrong("status_codes", "can't have more than 20 items")
    if not all(_STATUS_CODE.fullmatch(code) for code in codes):
        fields.wrong("status_codes", "must be codes such as 200, 2?? or 2*")
    path = fields.text("path", before.get("path", "/"), longest=256, shortest=1)
    if " " in path:
        fields.wrong("path", "must not contain spaces")
    return {
        "domain": _domain(fields, before),
        "path": path,
        "response": fields.text("response", before.get("response", ""), longest=256),
        "status_codes": codes,
        "tls": fields.flag("tls", before.get("tls", False)),
    }


def _domain(fields: Fields, before: Mapping[str, Any]) -> str | None:
    """The Host header; null, unlike a missing field, means that the check sends none."""
    if "domain" in fields.body and fields.body["domain"] is None:
        return None
    domain = fields.text("domain", longest=128) if "domain" in fields else before.get("domain", "")
    if set(domain or "") & set(" %\\"):
        fields.wrong("domain", "must not contain spaces, percent or backslash symbols")
    return domain


def _http(fields: Fields, protocol: str, before: Mapping[str, Any]) -> dict[str, Any]:
    http: dict[str, Any] = {
        "cookie_name": fields.text(
            "cookie_name", before.get("cookie_name", "HCLBSTICKY"), longest=100, shortest=1
        ),
        **_numbers(fields, before, _HTTP_NUMBERS),
        "sticky_sessions": fields.flag("sticky_sessions", before.get("sticky_sessions", False)),
    }
    # hcloud-python reads both fields of http services, too (load_balancers/client.py, 2.27).
    secure = protocol == "https"
    present: list[int] = before.get("certificates", []) if secure else []
    asked = fields.numbers("certificates") if secure and "certificates" in fields else present
    redirects = secure and fields.flag("redirect_http", before.get("redirect_http", False))
    if secure and not asked:
        fields.wrong("certificates", MISSING)
    return {**http, "certificates": asked, "redirect_http": redirects}


def ports_of(service: Mapping[str, Any]) -> set[int]:
    """The ports that a service listens on: its own, and 80 where it redirects."""
    redirects = service.get("http", {}).get("redirect_http", False)
    return {service["listen_port"], 80} if redirects else {service["listen_port"]}


def check_ports(services: Sequence[Mapping[str, Any]], *, status: int | None = None) -> None:
    """Refuse two services on one port; ``status`` replaces the 412 of the error."""
    taken: set[int] = set()
    for service in services:
        ports = ports_of(service)
        if taken & ports:
            text = f"source port {min(taken & ports)} is already in use"
            raise ApiError("source_port_already_used", text, status=status)
        taken |= ports


def find_service(services: Sequence[dict[str, Any]], listen_port: int) -> dict[str, Any]:
    """The service on a port; raises ``not_found``, or InvalidInput for port 0."""
    if not listen_port:
        raise InvalidInput({"listen_port": [MISSING]})
    for service in services:
        if service["listen_port"] == listen_port:
            return service
    raise ApiError("not_found", f"service with listen port '{listen_port}' not found")


def check_services(
    call: Call, balancer: LoadBalancer, services: list[dict[str, object]], *, status: int | None = None
) -> None:
    """Refuse services that the load balancer can't have: one port twice, too many, unknown certificates."""
    check_ports(services, status=status)
    kind = LOAD_BALANCER_TYPES.find(balancer.type)
    if len(services) > kind.max_services:
        raise LimitExceeded("number of services exceeded", "load_balancer_services_limit")
    certificates = {identity for service in services for identity in certificates_of(service)}
    for identity in certificates:
        call.cloud.store.get(Certificate, call.project, identity)
    if len(certificates) > kind.max_assigned_certificates:
        raise LimitExceeded("number of certificates exceeded", "load_balancer_certificates_limit")


def check_target_count(balancer: LoadBalancer, number: int) -> None:
    """Refuse a number of targets that exceeds the limit of the type."""
    if number > LOAD_BALANCER_TYPES.find(balancer.type).max_targets:
        raise LimitExceeded("number of targets exceeded", "load_balancer_targets_limit")


def read_target(fields: Fields) -> Target:
    """Decode a target; ``fields`` collects what is invalid."""
    kind = fields.choice("type", ("server", "label_selector", "ip"), required=True)
    private = fields.flag("use_private_ip")
    if kind == "server":
        server = fields.object("server", required=True).number("id", required=True)
        return Target("server", server=server, use_private_ip=private)
    if kind == "label_selector":
        selector = fields.object("label_selector", required=True).text(
            "selector", required=True, longest=1000
        )
        return Target("label_selector", selector=selector, use_private_ip=private)
    ip = fields.object("ip", required=True).address("ip", required=True)
    return Target("ip", ip=str(ip))


def check_target(call: Call, target: Target, balancer: LoadBalancer) -> None:
    """Refuse a target that can't get traffic, or that the load balancer has, with Hetzner's code."""
    if any(target.same(other) for other in balancer.targets):
        raise ApiError("target_already_defined", "target already defined")
    if target.type == "ip":
        _check_ip(call, IPv4Address(target.ip), balancer)
        return
    if target.use_private_ip and balancer.network is None:
        raise ApiError("load_balancer_not_attached_to_network", "load balancer is not attached to a network")
    if not target.use_private_ip and not balancer.public_enabled:
        text = "load balancer public interface is disabled, cannot add target using public IP"
        raise ApiError("load_balancer_public_interface_disabled", text)
    if target.type == "label_selector":
        parse_selector(target.selector)
        return
    server = call.cloud.store.get(Server, call.project, target.server or 0)
    if target.address_of(call.cloud, server, balancer.network) is None:
        where = "private" if target.use_private_ip else "public"
        reason = (
            "is not attached to the same network as the load balancer"
            if target.use_private_ip
            else "does not have a public IPv4 address"
        )
        raise ApiError(f"resolve_cloud_{where}_targets_error", f"server {server.id} {reason}")


def _check_ip(call: Call, ip: IPv4Address, balancer: LoadBalancer) -> None:
    if not is_private(IPv4Network(ip)):
        if str(ip) not in robot_addresses(call.cloud):
            raise ApiError("ip_not_owned", f"ip '{ip}' is not owned by the project owner")
        if not balancer.public_enabled:
            text = "the load balancer's public network interface is disabled"
            raise ApiError("load_balancer_public_interface_disabled", text)
        return
    found = call.cloud.store.find(Network, balancer.network or 0)
    if found is None:
        raise ApiError("load_balancer_not_attached_to_network", "load balancer is not attached to a network")
    ranges = [IPv4Network(subnet.ip_range) for subnet in found.subnets if subnet.type == "vswitch"]
    if not ranges:
        raise ApiError("network_has_no_vswitch_subnet", "the attached network does not have a vswitch subnet")
    if not any(ip in each for each in ranges):
        raise ApiError("ip_not_in_vswitch_subnet", f"ip '{ip}' does not belong to the vswitch subnet")
