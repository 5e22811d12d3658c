"""What a Service's annotations ask for. Pure.

Keys are the official CCM's, with its meanings; ours are ``adopt``, ``share``, ``preserve-foreign``,
``labels`` and ``delete-protection``, and every key of a port may be given for one port alone as
``port.<n>.<key>``. What is not annotated comes from the environment (HCLOUD_LOAD_BALANCERS_…), and otherwise
has the API's default in what is made anew. What somebody else set stays as it is, see
:mod:`ccm.hetzner.load_balancers.restoring`; so wishes also say what was asked for, and what is a default.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from ccm.cloud import ServiceView
from ccm.hetzner.load_balancers.reader import PREFIX, Reader, Texts, sort
from ccm.hetzner.load_balancers.remarks import remarks_on
from ccm.hetzner.load_balancers.selector import Selector
from ccm.hetzner.settings import LoadBalancerSettings

PROTOCOLS = ("tcp", "http", "https")
ALGORITHMS = ("round_robin", "least_connections")
STATUS_CODES = ("2??", "3??")
COOKIE_NAME = "HCLBSTICKY"
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
    cookie_name: str = COOKIE_NAME
    cookie_lifetime: int = 300
    timeout_idle: int = 50
    sticky_sessions: bool = False
    redirect_http: bool = False
    certificates: CertificateWishes = field(default_factory=CertificateWishes)
    check: CheckWishes | None = None
    asked: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class Wishes:
    """Everything. Empty texts and None mean "as it comes".

    Attributes:
        ports: By the Service's port; those that are TCP, and no more than any load balancer can have.
        problems: What is wrong, by annotation; such an annotation counts as not set.
        remarks: What has no effect, by annotation.
        asked: Which of ``name`` and ``algorithm`` are not defaults.
    """

    name: str
    location: str
    network_zone: str
    type: str
    algorithm: str
    public: bool | None
    use_private_ip: bool
    private_ipv4: str
    ip_range: str
    private_ingress: bool
    ipv6: bool
    hostname: str
    rdns: Mapping[str, str]
    nodes: Selector
    adopt: str
    share: str
    preserve_foreign: bool
    protection: bool | None
    labels: Mapping[str, str]
    ports: Mapping[int, PortWishes]
    problems: Mapping[str, str]
    remarks: Mapping[str, str]
    asked: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def complaints(self) -> tuple[str, ...]:
        """Everything that is wrong or has no effect, in words."""
        return (*self.problems.values(), *self.remarks.values())


def read(service: ServiceView, defaults: LoadBalancerSettings, *, network: bool) -> Wishes:
    """Read the annotations. Never raises.

    Args:
        service: The Service.
        defaults: What the environment says.
        network: Whether there is a private network.
    """
    texts = sort(service.annotations)
    reader = Reader(texts)
    location, zone = _place(reader, defaults)
    private = reader.boolean("use-private-ip", default=defaults.use_private_ip)
    if private and not network:
        reader.wrong("use-private-ip", "needs a private network: set HCLOUD_NETWORK")
    public_off = reader.optional_boolean("disable-public-network", default=defaults.disable_public_network)
    ports = _ports(service, texts, defaults)
    rdns = {family: reader.domain(f"{family}-rdns") for family in ("ipv4", "ipv6")}
    spoken = {
        number: (one.protocol, one.check.protocol if one.check else "tcp") for number, one in ports.items()
    }
    remarks = remarks_on(texts, service.ports, spoken, network=network)
    if zone and location and reader.has("network-zone") and not reader.has("location"):
        remarks[PREFIX + "network-zone"] = (
            f"{PREFIX}network-zone: has no effect, because HCLOUD_LOAD_BALANCERS_LOCATION is {location}; "
            f'annotate {PREFIX}location with "" too'
        )
    asked = {"name": reader.has("name"), "algorithm": reader.has("algorithm-type") or defaults.algorithm_type}
    return Wishes(
        name=reader.text("name", default_name(service), longest=128),
        location=location,
        network_zone="" if location else zone,
        type=reader.text("type", defaults.type, longest=63).lower(),
        algorithm=reader.choice("algorithm-type", ALGORITHMS, defaults.algorithm_type or ALGORITHMS[0]),
        public=None if public_off is None else not public_off,
        use_private_ip=private and network,
        private_ipv4=reader.ipv4("private-ipv4") if network else "",
        ip_range=reader.cidr("private-subnet-ip-range", defaults.private_subnet_ip_range),
        private_ingress=not reader.boolean(
            "disable-private-ingress", default=defaults.disable_private_ingress
        ),
        ipv6=not reader.boolean("ipv6-disabled", default=defaults.disable_ipv6),
        hostname=reader.domain("hostname"),
        rdns={family: name for family, name in rdns.items() if name},
        nodes=reader.selector("node-selector"),
        adopt=reader.text("adopt", longest=128),
        share=reader.label("share"),
        preserve_foreign=reader.boolean("preserve-foreign", default=False),
        protection=reader.optional_boolean("delete-protection"),
        labels=reader.labels("labels"),
        ports=ports,
        problems=texts.problems,
        remarks=remarks,
        asked=frozenset(name for name, is_asked in asked.items() if is_asked),
    )


def default_name(service: ServiceView) -> str:
    """The name of a load balancer that has none in an annotation; upstream's rule."""
    return ("a" + service.uid.replace("-", ""))[:32]


def _place(reader: Reader, defaults: LoadBalancerSettings) -> tuple[str, str]:
    """Location and network zone. A default location beats an annotated zone, unless it is emptied."""
    location = reader.text("location", "" if reader.is_emptied("location") else defaults.location, longest=63)
    zone = "" if reader.has("location") else defaults.network_zone
    return location, reader.text("network-zone", zone, longest=63)


def _ports(service: ServiceView, texts: Texts, defaults: LoadBalancerSettings) -> Mapping[int, PortWishes]:
    """The ports that a load balancer can have; those without annotations of their own share one answer."""
    numbers = heapq.nsmallest(MOST_PORTS, {port.port for port in service.ports if port.protocol == "TCP"})
    same = _port(Reader(texts), service, defaults)
    return {
        number: _port(Reader(texts, number), service, defaults) if number in texts.ports else same
        for number in numbers
    }


def _port(reader: Reader, service: ServiceView, defaults: LoadBalancerSettings) -> PortWishes:
    protocol = reader.choice("protocol", PROTOCOLS, "tcp")
    redirect = reader.boolean("http-redirect-http", default=False)
    asked = {name for name, key in _KEYS.items() if reader.has(key)}
    if defaults.uses_proxyprotocol is not None:
        asked.add("proxyprotocol")
    return PortWishes(
        protocol=protocol,
        proxyprotocol=reader.boolean("uses-proxyprotocol", default=defaults.uses_proxyprotocol or False),
        cookie_name=reader.text("http-cookie-name", COOKIE_NAME, longest=100),
        cookie_lifetime=reader.seconds("http-cookie-lifetime", 300, 30, 86400),
        timeout_idle=reader.seconds("http-timeout-idle", 50, 30, 300),
        sticky_sessions=reader.boolean("http-sticky-sessions", default=False),
        redirect_http=redirect and protocol == "https",
        certificates=_certificates(reader, service) if protocol == "https" else CertificateWishes(),
        check=_check(reader, protocol, defaults),
        asked=frozenset(asked),
    )


def _certificates(reader: Reader, service: ServiceView) -> CertificateWishes:
    if reader.choice("certificate-type", ("uploaded", "managed"), "uploaded") == "uploaded":
        return CertificateWishes(uploaded=reader.texts("http-certificates"))
    domains = reader.domains("http-managed-certificate-domains")
    if not reader.has("http-managed-certificate-domains"):
        reader.wrong("http-managed-certificate-domains", "is missing: a managed certificate needs domains")
    return CertificateWishes(
        domains=domains,
        name=reader.text(
            "http-managed-certificate-name", f"ccm-managed-certificate-{service.uid}", longest=128
        ),
        staging=reader.boolean("http-managed-certificate-acme-staging", default=False),
    )


def _check(reader: Reader, protocol: str, defaults: LoadBalancerSettings) -> CheckWishes | None:
    """The health check; None = nothing was said about it."""
    keys = ("protocol", "port", "interval", "timeout", "retries")
    times = {
        "interval": defaults.health_check_interval,
        "timeout": defaults.health_check_timeout,
        "retries": defaults.health_check_retries,
    }
    asked = {name for name, key in _CHECK_KEYS.items() if reader.has(key)}
    asked |= {name for name, value in times.items() if value is not None}
    named = {key for key in keys if reader.has("health-check-" + key)}
    # Without any of these keys the official CCM has targets checked by TCP, whatever the others say.
    usual = "http" if protocol != "tcp" and (named or asked & times.keys()) else "tcp"
    # The load balancer ends TLS itself: behind an https port it speaks plain HTTP, so does its check.
    protocol = reader.choice("health-check-protocol", PROTOCOLS, usual)
    every = reader.seconds("health-check-interval", _clamp(times["interval"], 15, 3, 60), 3, 60)
    patience = reader.seconds("health-check-timeout", min(_clamp(times["timeout"], 10, 1, 60), every), 1, 60)
    if patience > every:
        reader.wrong("health-check-timeout", f"is longer than the interval of {every} seconds")
        patience = every
    check = CheckWishes(
        protocol="tcp" if protocol == "tcp" else "http",
        port=reader.integer("health-check-port", None, 1, 65535),
        interval=every,
        timeout=patience,
        retries=reader.integer("health-check-retries", _clamp(times["retries"], 3, 1, 5), 1, 5) or 3,
        domain=reader.text("health-check-http-domain", longest=128),
        path=reader.text("health-check-http-path", "/"),
        status_codes=reader.status_codes("http-status-codes", STATUS_CODES),
        tls=reader.boolean("health-check-http-validate-certificate", default=False) or protocol == "https",
        chosen=bool(named & {"protocol", "port"}),
        asked=frozenset(asked | ({"tls"} if protocol == "https" else set())),
    )
    return check if named or asked & times.keys() else None


def _clamp(value: float | None, default: int, lowest: int, highest: int) -> int:
    return default if value is None else min(max(round(value), lowest), highest)
