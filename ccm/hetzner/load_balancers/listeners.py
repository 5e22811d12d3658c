"""The listeners of load balancers, as the API has them."""

from msgspec.structs import replace

from ccm.hetzner.api.models import HealthCheckHttp, LoadBalancerService, ServiceHttp

# What annotations say of these parts; certificates have code of their own, and there is no annotation for a
# response.
HTTP_FIELDS = tuple(name for name in ServiceHttp.__struct_fields__ if name != "certificates")
CHECK_HTTP_FIELDS = tuple(name for name in HealthCheckHttp.__struct_fields__ if name != "response")
# What kube-proxy is asked for the sake of ``externalTrafficPolicy: Local``, at a port of its own.
KUBE_PROXY = HealthCheckHttp(path="/healthz", status_codes=("200",))


def fields_of(listener: LoadBalancerService) -> dict[str, object]:
    """The fields of a listener that others may have set, as far as its protocols have them."""
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
    """Whether its health check is the one that we create for ``externalTrafficPolicy: Local``.

    The port distinguishes it from another check that asks the same of the Pods: without an annotation
    (``asked``, None = none), only the node port is checked.
    """
    check = comparable(listener).health_check
    return check.http == KUBE_PROXY and check.port not in (listener.destination_port, asked)


def comparable(listener: LoadBalancerService) -> LoadBalancerService:
    """A listener of the API with the empty values replaced, so that it equals ours if nothing differs."""
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
