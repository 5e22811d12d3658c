"""What is asked for single ports. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from ccm.cloud import ServiceView
from ccm.hetzner.load_balancers.wishes.annotations import Annotations, Values
from ccm.hetzner.settings import LoadBalancerSettings

STATUS_CODES = ("2??", "3??")
MOST_PORTS = 250  # no type of load balancer has a fifth as many
# Which field comes from which annotation, for those that somebody else may have set as well.
_KEYS = {
    "proxyprotocol": "uses-proxyprotocol",
    "cookie_name": "http-cookie-name",
    "cookie_lifetime": "http-cookie-lifetime",
    "timeout_idle": "http-timeout-idle",
    "sticky_sessions": "http-sticky-sessions",
    "redirect_http": "http-redirect-http",
}
_CHECK_KEYS = {
    "interval": "health-check-interval",
    "timeout": "health-check-timeout",
    "retries": "health-check-retries",
    "domain": "health-check-http-domain",
    "path": "health-check-http-path",
    "status_codes": "http-status-codes",
    "tls": "health-check-http-validate-certificate",
}


@dataclass(frozen=True, slots=True)
class CheckWishes:
    """A health check; times in seconds.

    Attributes:
        port: None = the port that traffic goes to.
        chosen: Whether the owner said what to ask, and not only when.
        asked: Names of the fields that are not defaults; says nothing about what is wanted.
    """

    protocol: str = "tcp"
    port: int | None = None
    interval: int = 15
    timeout: int = 10
    retries: int = 3
    domain: str = ""
    path: str = "/"
    status_codes: tuple[str, ...] = STATUS_CODES
    tls: bool = False
    chosen: bool = True
    asked: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class CertificateWishes:
    """Which certificates a port gets: uploaded ones by id or name, or one that is managed for domains."""

    uploaded: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    name: str = ""
    staging: bool = False


@dataclass(frozen=True, slots=True)
class PortWishes:
    """One port; times in seconds.

    Attributes:
        check: None = nothing was said about it.
        asked: Names of the fields that are not defaults; says nothing about what is wanted.
    """

    protocol: str = "tcp"
    proxyprotocol: bool = False
    cookie_name: str = "HCLBSTICKY"
    cookie_lifetime: int = 300
    timeout_idle: int = 50
    sticky_sessions: bool = False
    redirect_http: bool = False
    certificates: CertificateWishes = field(default_factory=CertificateWishes)
    check: CheckWishes | None = None
    asked: frozenset[str] = field(default=frozenset(), compare=False)


def read_ports(
    service: ServiceView, annotations: Annotations, defaults: LoadBalancerSettings
) -> Mapping[int, PortWishes]:
    """The ports that a load balancer can have; those without annotations of their own share one answer."""
    numbers = heapq.nsmallest(MOST_PORTS, {port.port for port in service.ports if port.protocol == "TCP"})
    same = _port(Values(annotations, defaults), service.uid)
    return {
        number: _port(Values(annotations, defaults, number), service.uid)
        if number in annotations.ports
        else same
        for number in numbers
    }


def _port(values: Values, uid: str) -> PortWishes:
    protocol = values["protocol"]
    fields = {name: values[key] for name, key in _KEYS.items()}
    fields["redirect_http"] = fields["redirect_http"] and protocol == "https"
    return PortWishes(
        protocol=protocol,
        **fields,
        certificates=_certificates(values, uid) if protocol == "https" else CertificateWishes(),
        check=_check(values, protocol),
        asked=frozenset(name for name, key in _KEYS.items() if values.is_asked(key)),
    )


def _certificates(values: Values, uid: str) -> CertificateWishes:
    if values["certificate-type"] == "uploaded":
        return CertificateWishes(uploaded=values["http-certificates"])
    domains = values["http-managed-certificate-domains"]
    if "http-managed-certificate-domains" not in values:
        values.refuse("http-managed-certificate-domains", "is missing: a managed certificate needs domains")
    return CertificateWishes(
        domains=domains,
        name=values["http-managed-certificate-name"] or f"ccm-managed-certificate-{uid}",
        staging=values["http-managed-certificate-acme-staging"],
    )


def _check(values: Values, protocol: str) -> CheckWishes | None:
    """The health check; None = nothing was said about it."""
    asked = {name for name, key in _CHECK_KEYS.items() if values.is_asked(key)}
    named = {key for key in ("protocol", "port") if "health-check-" + key in values}
    chosen = bool(named or asked & {"interval", "timeout", "retries"})
    # Without any of these keys the official CCM has targets checked by TCP, whatever the others say.
    usual = "http" if protocol != "tcp" and chosen else "tcp"
    # The load balancer ends TLS itself: behind an https port it speaks plain HTTP, so does its check.
    protocol = values["health-check-protocol"] or usual
    fields = {name: values[key] for name, key in _CHECK_KEYS.items()}
    interval, timeout = fields["interval"], fields["timeout"]
    if timeout > interval:
        if values.annotated("health-check-timeout") is not None:
            values.refuse("health-check-timeout", f"is longer than the interval of {interval} seconds")
        fields["timeout"] = interval
    fields["tls"] = fields["tls"] or protocol == "https"
    check = CheckWishes(
        protocol="tcp" if protocol == "tcp" else "http",
        port=values["health-check-port"],
        **fields,
        chosen=bool(named),
        asked=frozenset(asked | ({"tls"} if protocol == "https" else set())),
    )
    return check if chosen else None
