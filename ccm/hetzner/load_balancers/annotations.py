"""What a Service's annotations ask for. Pure.

Keys are the official CCM's, with its meanings; ours are ``adopt``, ``share``, ``preserve-foreign``,
``labels`` and ``delete-protection``, and every key of a port may be given for one port alone as
``port.<n>.<key>``. What is not annotated comes from the environment (HCLOUD_LOAD_BALANCERS_…), and otherwise
has the API's default, so that taking an annotation away takes its effect away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ccm.cloud import ServicePort, ServiceView
from ccm.hetzner.environment import LoadBalancerSettings
from ccm.hetzner.load_balancers.reader import Reader
from ccm.hetzner.load_balancers.remarks import remarks_on
from ccm.hetzner.load_balancers.selector import Selector

PROTOCOLS = ("tcp", "http", "https")
ALGORITHMS = ("round_robin", "least_connections")
STATUS_CODES = ("2??", "3??")
COOKIE_NAME = "HCLBSTICKY"


@dataclass(frozen=True, slots=True)
class CheckWishes:
    """A health check; times in seconds.

    Attributes:
        port: None = the port that traffic goes to.
        chosen: Whether the owner said what to ask, and not only when.
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


@dataclass(frozen=True, slots=True)
class CertificateWishes:
    """Which certificates a port gets: uploaded ones by id or name, or one that is managed for domains."""

    uploaded: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    name: str = ""
    staging: bool = False


@dataclass(frozen=True, slots=True)
class PortWishes:
    """One port; times in seconds."""

    protocol: str = "tcp"
    proxyprotocol: bool = False
    cookie_name: str = COOKIE_NAME
    cookie_lifetime: int = 300
    timeout_idle: int = 50
    sticky_sessions: bool = False
    redirect_http: bool = False
    certificates: CertificateWishes = field(default_factory=CertificateWishes)
    check: CheckWishes | None = None


@dataclass(frozen=True, slots=True)
class Wishes:
    """Everything. Empty texts and None mean "as it comes"; ``ports`` is by the Service's port.

    Attributes:
        problems: What is wrong, by annotation; such an annotation counts as not set.
        remarks: What has no effect, by annotation.
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
    problems: dict[str, str] = {}
    reader = Reader(service.annotations, problems)
    location = reader.text("location", longest=63)
    zone = reader.text("network-zone", longest=63)
    if not location and not zone:
        location, zone = defaults.location, defaults.network_zone
    private = reader.boolean("use-private-ip", default=defaults.use_private_ip)
    if private and not network:
        reader.wrong("use-private-ip", "needs a private network: set HCLOUD_NETWORK")
    public_off = reader.optional_boolean("disable-public-network", default=defaults.disable_public_network)
    ports = {port.port: _port(service, port, defaults, problems) for port in service.ports}
    rdns = {family: reader.domain(f"{family}-rdns") for family in ("ipv4", "ipv6")}
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
        problems=problems,
        remarks=remarks_on(service, {number: one.protocol for number, one in ports.items()}, network=network),
    )


def default_name(service: ServiceView) -> str:
    """The name of a load balancer that has none in an annotation; upstream's rule."""
    return ("a" + service.uid.replace("-", ""))[:32]


def _port(
    service: ServiceView, port: ServicePort, defaults: LoadBalancerSettings, problems: dict[str, str]
) -> PortWishes:
    reader = Reader(service.annotations, problems, port.port)
    protocol = reader.choice("protocol", PROTOCOLS, "tcp")
    redirect = reader.boolean("http-redirect-http", default=False)
    if redirect and protocol != "https":
        reader.wrong("http-redirect-http", f"needs protocol https, port {port.port} has {protocol}")
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
    http_keys = (
        "health-check-http-domain",
        "health-check-http-path",
        "health-check-http-validate-certificate",
        "http-status-codes",
    )
    keys = tuple("health-check-" + key for key in ("protocol", "port", "interval", "timeout", "retries"))
    from_environment = (
        defaults.health_check_interval,
        defaults.health_check_timeout,
        defaults.health_check_retries,
    )
    wants_http = any(reader.has(key) for key in http_keys)
    if not wants_http and not any(reader.has(key) for key in keys) and from_environment == (None,) * 3:
        return None
    # The load balancer ends TLS itself: behind an https port it speaks plain HTTP, so does its check.
    usual = "http" if wants_http or protocol != "tcp" else "tcp"
    chosen = reader.choice("health-check-protocol", PROTOCOLS, usual)
    interval, timeout, retries = from_environment
    every = reader.seconds("health-check-interval", _clamp(interval, 15, 3, 60), 3, 60)
    patience = reader.seconds("health-check-timeout", min(_clamp(timeout, 10, 1, 60), every), 1, 60)
    if patience > every:
        reader.wrong("health-check-timeout", f"is longer than the interval of {every} seconds")
        patience = every
    return CheckWishes(
        protocol="tcp" if chosen == "tcp" else "http",
        port=reader.integer("health-check-port", None, 1, 65535),
        interval=every,
        timeout=patience,
        retries=reader.integer("health-check-retries", _clamp(retries, 3, 1, 5), 1, 5) or 3,
        domain=reader.text("health-check-http-domain", longest=128),
        path=reader.text("health-check-http-path", "/"),
        status_codes=reader.status_codes("http-status-codes", STATUS_CODES),
        tls=chosen == "https" or reader.boolean("health-check-http-validate-certificate", default=False),
        chosen=wants_http or reader.has("health-check-protocol") or reader.has("health-check-port"),
    )


def _clamp(value: float | None, default: int, lowest: int, highest: int) -> int:
    return default if value is None else min(max(round(value), lowest), highest)
