"""The listeners of load balancers, as the API has them. Pure."""

from __future__ import annotations

from ccm.hetzner.api.wire import HealthCheck, HealthCheckHttp, LoadBalancerService, ServiceHttp

PORT_FIELDS = (
    "proxyprotocol",
    "cookie_name",
    "cookie_lifetime",
    "timeout_idle",
    "sticky_sessions",
    "redirect_http",
)
CHECK_FIELDS = ("interval", "timeout", "retries", "domain", "path", "status_codes", "tls")


def fields_of(listener: LoadBalancerService) -> dict[str, object]:
    """The fields of a listener that may be somebody else's, as far as its protocols have them."""
    check = listener.health_check
    found: dict[str, object] = {"proxyprotocol": listener.proxyprotocol}
    found |= {name: getattr(check, name) for name in ("interval", "timeout", "retries")}
    if listener.http is not None and listener.protocol != "tcp":
        found |= {name: getattr(listener.http, name) for name in PORT_FIELDS[1:]}
    if check.http is not None and check.protocol == "http":
        found |= {name: getattr(check.http, name) for name in CHECK_FIELDS[3:]}
        found["domain"] = found["domain"] or ""
    return found


def comparable(listener: LoadBalancerService) -> LoadBalancerService:
    """A listener as the API has it, in the spelling of what we make.

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
