"""Reads services of load balancers from requests, with Hetzner's defaults and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hetzner_emulator.errors import ApiError, InvalidInput
from hetzner_emulator.wire.fields import Fields

PROTOCOLS = ("tcp", "http", "https")
DEFAULT_LISTEN_PORT = {"tcp": 0, "http": 80, "https": 443}
MOST_PORT = 65535
_STATUS_CODE = re.compile(r"[0-9?]{3}|(?=[0-9?]*\*)[0-9?*]{1,3}")


def read_service(fields: Fields, present: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A service as the API shows it.

    Args:
        fields: The request; what is wrong is collected there.
        present: The service that is updated; its values stand for missing fields.
    """
    old = present or {}
    protocol = fields.choice("protocol", PROTOCOLS, old.get("protocol", "tcp"), required=present is None)
    default_port = DEFAULT_LISTEN_PORT.get(protocol, 0)
    listen = fields.number(
        "listen_port",
        old.get("listen_port", default_port),
        least=1,
        most=MOST_PORT,
        required=present is not None or not default_port,
    )
    destination = fields.number(
        "destination_port",
        old.get("destination_port", 0 if protocol == "tcp" else 80),
        least=1,
        most=MOST_PORT,
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
        "port": fields.number("port", before.get("port", destination), least=1, most=MOST_PORT),
        "interval": fields.number("interval", before.get("interval", 15), least=3, most=60),
        "timeout": fields.number("timeout", before.get("timeout", 10), least=1, most=60),
        "retries": fields.number("retries", before.get("retries", 3), least=1, most=5),
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
    """The Host header; null, unlike a missing field, says that none is sent."""
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
        "cookie_lifetime": fields.number(
            "cookie_lifetime", before.get("cookie_lifetime", 300), least=30, most=86400
        ),
        "timeout_idle": fields.number("timeout_idle", before.get("timeout_idle", 50), least=30, most=300),
        "sticky_sessions": fields.flag("sticky_sessions", before.get("sticky_sessions", False)),
    }
    # hcloud-python reads both of http services, too (load_balancers/client.py, 2.27).
    secure = protocol == "https"
    present: list[int] = before.get("certificates", []) if secure else []
    asked = fields.numbers("certificates") if secure and "certificates" in fields else present
    redirects = secure and fields.flag("redirect_http", before.get("redirect_http", False))
    if secure and not asked:
        fields.wrong("certificates", "Missing data for required field.")
    return {**http, "certificates": asked, "redirect_http": redirects}


def ports_of(service: Mapping[str, Any]) -> set[int]:
    """The ports that a service listens on: its own, and 80 where it redirects."""
    redirects = service.get("http", {}).get("redirect_http", False)
    return {service["listen_port"], 80} if redirects else {service["listen_port"]}


def check_ports(services: Sequence[Mapping[str, Any]], *, status: int | None = None) -> None:
    """Refuse two services on one port.

    Args:
        services: All of a load balancer.
        status: Of the error where it differs from the usual 412.

    Raises:
        ApiError: ``source_port_already_used``.
    """
    taken: set[int] = set()
    for service in services:
        ports = ports_of(service)
        if taken & ports:
            text = f"source port {min(taken & ports)} is already in use"
            raise ApiError("source_port_already_used", text, status=status)
        taken |= ports


def find_service(services: Sequence[dict[str, Any]], listen_port: int) -> dict[str, Any]:
    """The service on a port.

    Raises:
        ApiError: ``not_found``.
        InvalidInput: The port is none.
    """
    if not listen_port:
        raise InvalidInput({"listen_port": ["Missing data for required field."]})
    for service in services:
        if service["listen_port"] == listen_port:
            return service
    raise ApiError("not_found", f"service with listen port '{listen_port}' not found")
