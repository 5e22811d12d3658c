"""The health checks of listeners. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from ccm.cloud import ServiceView
from ccm.hetzner.api.wire import HealthCheck, HealthCheckHttp, LoadBalancerService
from ccm.hetzner.load_balancers.desired.listeners import ListenerChoice
from ccm.hetzner.load_balancers.listeners import CHECK_HTTP_FIELDS, KUBE_PROXY
from ccm.hetzner.load_balancers.wishes import CheckWishes


def with_checks(
    service: ServiceView, chosen: ListenerChoice, *, ours: bool
) -> tuple[LoadBalancerService, ...]:
    """The listeners with their health checks.

    Args:
        service: The Service.
        chosen: What is asked for.
        ours: Whether the load balancer is not just as the official CCM left it: that checks node ports by tcp
            where we ask kube-proxy.
    """
    return tuple(
        msgspec.structs.replace(
            one, health_check=_check(service, one, chosen.checks[one.listen_port], ours=ours)
        )
        for one in chosen.listeners
    )


def _check(
    service: ServiceView, listener: LoadBalancerService, asked: CheckWishes, *, ours: bool
) -> HealthCheck:
    number = listener.destination_port
    local = service.external_traffic_policy == "Local" and service.health_check_node_port
    if local and ours and not asked.chosen:
        # Only nodes with a Pod of the Service take traffic then; kube-proxy tells which.
        number = service.health_check_node_port
        codes = KUBE_PROXY.status_codes
        asked = replace(
            asked, protocol="http", path=KUBE_PROXY.path, status_codes=codes, domain="", tls=False
        )
    parts: dict[str, Any] = {name: getattr(asked, name) for name in CHECK_HTTP_FIELDS}
    parts["domain"] = asked.domain or None
    http = HealthCheckHttp(**parts)
    return HealthCheck(
        protocol=asked.protocol,
        port=asked.port or number,
        interval=asked.interval,
        timeout=asked.timeout,
        retries=asked.retries,
        http=http if asked.protocol == "http" else None,
    )
