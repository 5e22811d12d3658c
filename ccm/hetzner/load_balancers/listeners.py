"""What a load balancer should listen on, one listener for each TCP port of the Service. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from ccm.cloud import Notice, ServicePort, ServiceView
from ccm.hetzner.load_balancers.annotations import CheckWishes, PortWishes, Wishes
from ccm.hetzner.wire import HealthCheck, HealthCheckHttp, LoadBalancerService, ServiceHttp

SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_KUBE_PROXY = CheckWishes(protocol="http", path="/healthz", status_codes=("200",))


def wanted_listeners(
    service: ServiceView, wishes: Wishes, certificates: Mapping[int, tuple[int, ...]]
) -> tuple[list[LoadBalancerService], list[Notice]]:
    """The listeners, by port, and what the owner should know.

    Args:
        service: The Service.
        wishes: Its annotations.
        certificates: By port, ids of the certificates; an https port without any is left out.
    """
    listeners: list[LoadBalancerService] = []
    for port in service.ports:
        asked = wishes.ports[port.port]
        ids = certificates.get(port.port, ())
        if port.protocol != "TCP" or not port.node_port or (asked.protocol == "https" and not ids):
            continue
        listeners.append(_listener(service, port, asked, ids))
    settled, clashes = _settle_redirects(sorted(listeners, key=lambda one: one.listen_port))
    return settled, [*_notices(service), *clashes]


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


def _notices(service: ServiceView) -> Sequence[Notice]:
    notices: list[Notice] = []
    others = [f"{port.port}/{port.protocol}" for port in service.ports if port.protocol != "TCP"]
    if others:
        text = f"Hetzner load balancers only know TCP; these ports are left out: {', '.join(others)}"
        notices.append(Notice("UnsupportedProtocolConfigured", text))
    unreachable = [str(port.port) for port in service.ports if port.protocol == "TCP" and not port.node_port]
    if unreachable:
        text = f"ports without a node port can't be reached: {', '.join(unreachable)}; "
        notices.append(Notice("NodePortMissing", text + "don't set allocateLoadBalancerNodePorts to false"))
    fields = [
        f"{name} ({value})"
        for name, value in (
            ("loadBalancerSourceRanges", ", ".join(service.source_ranges)),
            (SOURCE_RANGES, service.annotations.get(SOURCE_RANGES, "").strip()),
            ("loadBalancerIP", service.load_balancer_ip),
            ("sessionAffinity", service.session_affinity.replace("None", "")),
            ("ipFamilies", "IPv6 alone" if service.ip_families == ("IPv6",) else ""),
        )
        if value
    ]
    if fields:
        text = f"Hetzner load balancers can't do this, so it has no effect: {'; '.join(fields)}"
        notices.append(Notice("UnsupportedFieldConfigured", text))
    return notices


def _listener(
    service: ServiceView, port: ServicePort, asked: PortWishes, certificates: tuple[int, ...]
) -> LoadBalancerService:
    http = ServiceHttp(
        cookie_name=asked.cookie_name,
        cookie_lifetime=asked.cookie_lifetime,
        timeout_idle=asked.timeout_idle,
        certificates=tuple(sorted(certificates)) if asked.protocol == "https" else (),
        redirect_http=asked.redirect_http,
        sticky_sessions=asked.sticky_sessions,
    )
    return LoadBalancerService(
        protocol=asked.protocol,
        listen_port=port.port,
        destination_port=port.node_port,
        proxyprotocol=asked.proxyprotocol,
        health_check=_check(service, port, asked.check),
        http=None if asked.protocol == "tcp" else http,
    )


def _check(service: ServiceView, port: ServicePort, asked: CheckWishes | None) -> HealthCheck:
    number = port.node_port
    local = service.external_traffic_policy == "Local" and service.health_check_node_port
    if local and (asked is None or not asked.chosen):
        # Only nodes with a Pod of the Service take traffic then; kube-proxy tells which.
        when = asked or CheckWishes()
        asked = replace(_KUBE_PROXY, interval=when.interval, timeout=when.timeout, retries=when.retries)
        number = service.health_check_node_port
    asked = asked or CheckWishes()
    http = HealthCheckHttp(
        domain=asked.domain or None,
        path=asked.path,
        response=None,
        status_codes=asked.status_codes,
        tls=asked.tls,
    )
    return HealthCheck(
        protocol=asked.protocol,
        port=asked.port or number,
        interval=asked.interval,
        timeout=asked.timeout,
        retries=asked.retries,
        http=http if asked.protocol == "http" else None,
    )


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
