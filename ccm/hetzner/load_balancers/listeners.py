"""The listeners of load balancers, as the API has them. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from ccm.hetzner.api.wire import HealthCheckHttp, LoadBalancerService, ServiceHttp

_HTTP_FIELDS = ("cookie_name", "cookie_lifetime", "timeout_idle", "sticky_sessions", "redirect_http")
_CHECK_HTTP_FIELDS = ("domain", "path", "status_codes", "tls")


def fields_of(listener: LoadBalancerService) -> dict[str, object]:
    """The fields of a listener that may be somebody else's, as far as its protocols have them."""
    check = listener.health_check
    found: dict[str, object] = {"proxyprotocol": listener.proxyprotocol}
    found |= {name: getattr(check, name) for name in ("interval", "timeout", "retries")}
    if listener.http is not None and listener.protocol != "tcp":
        found |= {name: getattr(listener.http, name) for name in _HTTP_FIELDS}
    if check.http is not None and check.protocol == "http":
        found |= {name: getattr(check.http, name) for name in _CHECK_HTTP_FIELDS}
        found["domain"] = found["domain"] or ""
    return found


def comparable(listener: LoadBalancerService) -> LoadBalancerService:
    """A listener as the API has it, in the spelling of what we make.

    The API gives empty texts for what is not set, and settings that don't matter for the protocol.
    """
    check = listener.health_check
    asked = check.http or HealthCheckHttp()
    asked = replace(asked, domain=asked.domain or None, response=asked.response or None)
    http, ends_tls = listener.http or ServiceHttp(), listener.protocol == "https"
    http = replace(
        http,
        certificates=tuple(sorted(http.certificates)) if ends_tls else (),
        redirect_http=http.redirect_http and ends_tls,
    )
    return replace(
        listener,
        health_check=replace(check, http=asked if check.protocol == "http" else None),
        http=None if listener.protocol == "tcp" else http,
    )
