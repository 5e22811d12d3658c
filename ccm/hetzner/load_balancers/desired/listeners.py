"""What a load balancer should listen on, one listener for each TCP port of the Service. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import msgspec

from ccm.cloud import Notice, ServicePort, ServiceView
from ccm.hetzner.api.wire import HealthCheck, HealthCheckHttp, LoadBalancerService, ServiceHttp
from ccm.hetzner.load_balancers.desired.defaults import fields_of
from ccm.hetzner.load_balancers.wishes.ports import CheckWishes, PortWishes
from ccm.hetzner.load_balancers.wishes.read import Wishes

Asked = TypeVar("Asked", PortWishes, CheckWishes)


@dataclass(frozen=True, slots=True)
class Before:
    """What there was, as far as it may stay.

    Attributes:
        listeners: By port.
        marked: Names of fields that are there because of an annotation, so that they go with it.
        ours: Whether the load balancer is not just as the official CCM left it.
    """

    listeners: Mapping[int, LoadBalancerService] = field(default_factory=dict[int, LoadBalancerService])
    marked: frozenset[str] = frozenset()
    ours: bool = True


def wanted_listeners(
    wishes: Wishes,
    certificates: Mapping[int, tuple[int, ...]],
    before: Before | None = None,
) -> tuple[list[LoadBalancerService], list[Notice]]:
    """The listeners, by port, and what the owner should know.

    Args:
        wishes: What the Service asks for.
        certificates: By port, ids of the certificates; an https port without any is left out.
        before: What there was; None = nothing.
    """
    service, before = wishes.service, before or Before()
    listeners: list[LoadBalancerService] = []
    for port in service.ports:
        asked = wishes.ports.get(port.port)
        ids = certificates.get(port.port, ())
        if asked is None or port.protocol != "TCP" or not port.node_port:
            continue
        if asked.protocol != "https" or ids:
            listeners.append(_listener(service, port, asked, ids, before))
    return _settle_redirects(sorted(listeners, key=lambda one: one.listen_port))


def _settle_redirects(
    listeners: Sequence[LoadBalancerService],
) -> tuple[list[LoadBalancerService], list[Notice]]:
    """Port 80 can be taken once: by a port of the Service itself, or by the first that redirects from it."""
    settled: list[LoadBalancerService] = []
    whys: list[str] = []
    taken = "the Service uses itself" if any(one.listen_port == 80 for one in listeners) else ""
    for one in listeners:
        if one.http is None or not one.http.redirect_http:
            settled.append(one)
        elif taken:
            whys.append(f"port {one.listen_port} can't redirect from port 80, which {taken}")
            http = msgspec.structs.replace(one.http, redirect_http=False)
            settled.append(msgspec.structs.replace(one, http=http))
        else:
            taken = f"port {one.listen_port} redirects from"
            settled.append(one)
    return settled, [Notice("LoadBalancerPortConflict", "; ".join(whys))] if whys else []


def _listener(
    service: ServiceView, port: ServicePort, asked: PortWishes, certificates: tuple[int, ...], before: Before
) -> LoadBalancerService:
    present = before.listeners.get(port.port)
    kept = fields_of(present) if present is not None else {}
    kept = {name: value for name, value in kept.items() if name not in before.marked}
    asked = _keeping(asked, kept)
    http = ServiceHttp(
        cookie_name=asked.cookie_name,
        cookie_lifetime=asked.cookie_lifetime,
        timeout_idle=asked.timeout_idle,
        certificates=tuple(sorted(certificates)) if asked.protocol == "https" else (),
        redirect_http=asked.redirect_http and asked.protocol == "https",
        sticky_sessions=asked.sticky_sessions,
    )
    return LoadBalancerService(
        protocol=asked.protocol,
        listen_port=port.port,
        destination_port=port.node_port,
        proxyprotocol=asked.proxyprotocol,
        health_check=_check(service, port, asked.check or CheckWishes(chosen=False), kept, ours=before.ours),
        http=None if asked.protocol == "tcp" else http,
    )


def _keeping(asked: Asked, kept: Mapping[str, object]) -> Asked:
    """Wishes in which what nobody asked for is as it was."""
    stays = {one.name: kept[one.name] for one in fields(asked) if one.name in kept.keys() - asked.asked}
    return replace(asked, **stays)  # type: ignore[arg-type]


def _check(
    service: ServiceView, port: ServicePort, asked: CheckWishes, kept: Mapping[str, object], *, ours: bool
) -> HealthCheck:
    number = port.node_port
    local = service.external_traffic_policy == "Local" and service.health_check_node_port
    if local and ours and not asked.chosen:
        # Only nodes with a Pod of the Service take traffic then; kube-proxy tells which.
        asked = replace(
            asked,
            protocol="http",
            path="/healthz",
            status_codes=("200",),
            domain="",
            tls=False,
            asked=asked.asked | {"path", "status_codes", "domain", "tls"},
        )
        number = service.health_check_node_port
    interval, timeout = _times(asked, when := _keeping(asked, kept))
    http = HealthCheckHttp(
        domain=when.domain or None,
        path=when.path,
        response=None,
        status_codes=when.status_codes,
        tls=when.tls,
    )
    return HealthCheck(
        protocol=when.protocol,
        port=when.port or number,
        interval=interval,
        timeout=timeout,
        retries=when.retries,
        http=http if when.protocol == "http" else None,
    )


def _times(asked: CheckWishes, when: CheckWishes) -> tuple[int, int]:
    """Interval and timeout; if one is kept that doesn't fit to the other, it gives way."""
    if "interval" in asked.asked or "timeout" not in asked.asked:
        return when.interval, min(when.timeout, when.interval)
    return max(when.interval, when.timeout), when.timeout


def comparable(listener: LoadBalancerService) -> LoadBalancerService:
    """A listener as the API has it, in the spelling of :func:`wanted_listeners`.

    The API gives empty texts for what is not set, and settings that don't matter for the protocol.
    """
    check, http = listener.health_check, listener.http
    return LoadBalancerService(
        protocol=listener.protocol,
        listen_port=listener.listen_port,
        destination_port=listener.destination_port,
        proxyprotocol=listener.proxyprotocol,
        health_check=HealthCheck(
            protocol=check.protocol,
            port=check.port,
            interval=check.interval,
            timeout=check.timeout,
            retries=check.retries,
            http=_comparable_check(check) if check.protocol == "http" else None,
        ),
        http=None if listener.protocol == "tcp" else _comparable_http(listener.protocol, http),
    )


def _comparable_check(check: HealthCheck) -> HealthCheckHttp:
    http = check.http or HealthCheckHttp()
    return HealthCheckHttp(
        domain=http.domain or None,
        path=http.path,
        response=http.response or None,
        status_codes=http.status_codes,
        tls=http.tls,
    )


def _comparable_http(protocol: str, http: ServiceHttp | None) -> ServiceHttp:
    http = http or ServiceHttp()
    return ServiceHttp(
        cookie_name=http.cookie_name,
        cookie_lifetime=http.cookie_lifetime,
        timeout_idle=http.timeout_idle,
        certificates=tuple(sorted(http.certificates)) if protocol == "https" else (),
        redirect_http=http.redirect_http and protocol == "https",
        sticky_sessions=http.sticky_sessions,
    )


def occupied_ports(listener: LoadBalancerService) -> frozenset[int]:
    """The ports that a listener takes: its own, and 80 where it redirects from there."""
    redirects = listener.http is not None and listener.http.redirect_http
    return frozenset({listener.listen_port, 80} if redirects else {listener.listen_port})
