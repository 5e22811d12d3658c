"""The listeners of load balancers in the format of the API."""

from msgspec.structs import replace

from ccm.hetzner.api.models import HealthCheckHttp, LoadBalancerService, ServiceHttp

# The fields that annotations set. Certificates have their own code, and no annotation sets the response.
HTTP_FIELDS = tuple(name for name in ServiceHttp.__struct_fields__ if name != "certificates")
CHECK_HTTP_FIELDS = tuple(name for name in HealthCheckHttp.__struct_fields__ if name != "response")
# The check of kube-proxy for ``externalTrafficPolicy: Local``, at a separate port.
KUBE_PROXY = HealthCheckHttp(path="/healthz", status_codes=("200",))


def fields_of(listener: LoadBalancerService) -> dict[str, object]:
    """The fields of a listener that other clients may have set, if they apply to the protocols."""
    check = listener.health_check
    found: dict[str, object] = {"protocol": listener.protocol, "proxyprotocol": listener.proxyprotocol}
    found |= {name: getattr(check, name) for name in ("interval", "timeout", "retries")}
    if listener.http is not None and listener.protocol != "tcp":
        found |= {name: getattr(listener.http, name) for name in HTTP_FIELDS}
    if check.http is not None and check.protocol == "http":
        found |= {name: getattr(check.http, name) for name in CHECK_HTTP_FIELDS}
        found["domain"] = found["domain"] or ""
    return found


def asks_kube_proxy(listener: LoadBalancerService, asked: int | None) -> bool:
    """Whether the listener has the check that we create for ``externalTrafficPolicy: Local``.

    The port distinguishes this check from a check of Pods with the same path: the latter uses the node port,
    or the port of the annotation (``asked``, None = no annotation).
    """
    check = comparable(listener).health_check
    return check.http == KUBE_PROXY and check.port not in (listener.destination_port, asked)


def comparable(listener: LoadBalancerService) -> LoadBalancerService:
    """Normalize empty values of a listener, so that it equals our listener if nothing differs."""
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
