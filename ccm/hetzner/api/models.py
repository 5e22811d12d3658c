"""The parts of the Hetzner Cloud API's objects that we read. Names and shapes are the API's."""

import msgspec


class Part(msgspec.Struct, frozen=True, gc=False):
    """Base of all: immutable, and not tracked by the garbage collector."""


class Named(Part, frozen=True):
    """Something of which only the name matters here."""

    name: str = ""


class Location(Part, frozen=True):
    """A location."""

    name: str = ""
    network_zone: str = ""
    id: int = 0


class PublicAddress(Part, frozen=True):
    """A public address; for a server's IPv6 it is the /64 network."""

    ip: str | None = None
    dns_ptr: object = None
    id: int | None = None  # of the Primary IP; 0 or None = Hetzner manages it


class ServerPublicNet(Part, frozen=True):
    """A server's public addresses; either may be missing."""

    ipv4: PublicAddress | None = None
    ipv6: PublicAddress | None = None


class PrivateNet(Part, frozen=True):
    """An attachment to a network."""

    network: int = 0
    ip: str = ""
    alias_ips: tuple[str, ...] = ()


class Server(Part, frozen=True):
    """A server."""

    id: int
    name: str
    status: str = "unknown"
    public_net: ServerPublicNet = ServerPublicNet()
    private_net: tuple[PrivateNet, ...] = ()
    server_type: Named = Named()
    location: Location = Location()
    labels: dict[str, str] = {}

    @property
    def public_ipv4(self) -> str:
        """Its public IPv4 address; empty = it has none."""
        return (self.public_net.ipv4 and self.public_net.ipv4.ip) or ""

    def private_ip(self, network: int | None) -> str | None:
        """Its address in a network, or None if it is not attached to it."""
        return next((net.ip for net in self.private_net if net.network == network and net.ip), None)


class NetworkRoute(Part, frozen=True):
    """A route of a network."""

    destination: str
    gateway: str


class Subnet(Part, frozen=True):
    """A part of a network."""

    ip_range: str = ""
    network_zone: str = ""
    gateway: str = ""


class Network(Part, frozen=True):
    """A private network."""

    id: int
    name: str
    ip_range: str = ""
    subnets: tuple[Subnet, ...] = ()
    routes: tuple[NetworkRoute, ...] = ()
    servers: tuple[int, ...] = ()


class LoadBalancerPublicNet(Part, frozen=True):
    """A load balancer's public side."""

    enabled: bool = True
    ipv4: PublicAddress = PublicAddress()
    ipv6: PublicAddress = PublicAddress()

    def of(self, family: str) -> PublicAddress:
        """Its address of a family, ``ipv4`` or ``ipv6``."""
        return self.ipv4 if family == "ipv4" else self.ipv6


class PrimaryIp(Part, frozen=True):
    """A public address that a server or load balancer can have."""

    id: int
    name: str
    type: str = ""
    ip: str = ""
    location: Location = Location()
    assignee_id: int | None = None
    blocked: bool = False
    labels: dict[str, str] = {}


class Deprecation(Part, frozen=True):
    """When something will be gone."""

    unavailable_after: str | None = None


class LoadBalancerType(Part, frozen=True):
    """A size of load balancer, with its limits."""

    id: int = 0
    name: str = ""
    max_services: int = 0
    max_targets: int = 0
    deprecated: str | None = None  # until 2026-11-02; since then, deprecation
    deprecation: Deprecation | None = None


class HealthCheckHttp(Part, frozen=True):
    """What an HTTP health check asks and accepts."""

    domain: str | None = None
    path: str = "/"
    response: str | None = None
    status_codes: tuple[str, ...] = ()
    tls: bool = False


class HealthCheck(Part, frozen=True):
    """How a service finds out which targets are well; times in seconds."""

    protocol: str = "tcp"
    port: int = 0
    interval: int = 15
    timeout: int = 10
    retries: int = 3
    http: HealthCheckHttp | None = None


class ServiceHttp(Part, frozen=True):
    """HTTP settings of a service; times in seconds."""

    cookie_name: str = "HCLBSTICKY"
    cookie_lifetime: int = 300
    timeout_idle: int = 50
    certificates: tuple[int, ...] = ()
    redirect_http: bool = False
    sticky_sessions: bool = False


class LoadBalancerService(Part, frozen=True):
    """A port on which a load balancer listens."""

    protocol: str
    listen_port: int
    destination_port: int
    proxyprotocol: bool = False
    health_check: HealthCheck = HealthCheck()
    http: ServiceHttp | None = None

    @property
    def ports(self) -> frozenset[int]:
        """The ports that it takes: its own, and 80 where it redirects from there."""
        redirects = self.http is not None and self.http.redirect_http
        return frozenset({self.listen_port, 80} if redirects else {self.listen_port})


class TargetServer(Part, frozen=True):
    """A target's server."""

    id: int


class TargetIp(Part, frozen=True):
    """A target's address."""

    ip: str


class TargetHealth(Part, frozen=True):
    """How one service finds a target, and in a word why it is unhealthy."""

    listen_port: int = 0
    status: str = "unknown"
    detail: str | None = None
    http_status_code: int | None = None

    @property
    def reason(self) -> str:
        """Hetzner's word for it, with the status of an HTTP answer; empty = it gives none."""
        return f"{self.detail or ''} {self.http_status_code or ''}".strip()


class LoadBalancerTarget(Part, frozen=True):
    """Where a load balancer sends traffic to; of a label selector only that it is one is kept."""

    type: str
    server: TargetServer | None = None
    ip: TargetIp | None = None
    use_private_ip: bool = False
    health_status: tuple[TargetHealth, ...] = ()


class Protection(Part, frozen=True):
    """What must not be done to a resource."""

    delete: bool = False


class Algorithm(Part, frozen=True):
    """How a load balancer chooses a target."""

    type: str = "round_robin"


class LoadBalancer(Part, frozen=True):
    """A load balancer."""

    id: int
    name: str
    public_net: LoadBalancerPublicNet = LoadBalancerPublicNet()
    private_net: tuple[PrivateNet, ...] = ()
    location: Location = Location()
    load_balancer_type: LoadBalancerType = LoadBalancerType()
    protection: Protection = Protection()
    labels: dict[str, str] = {}
    services: tuple[LoadBalancerService, ...] = ()
    targets: tuple[LoadBalancerTarget, ...] = ()
    algorithm: Algorithm = Algorithm()

    @property
    def certificates(self) -> frozenset[int]:
        """Ids of the certificates that it serves with."""
        return frozenset(
            number for listener in self.services if listener.http for number in listener.http.certificates
        )

    def is_in(self, network: int, ip: str) -> bool:
        """Whether it is in a network, with this address; empty = with any."""
        return any(net.network == network and ip in ("", net.ip) for net in self.private_net)

    def fits(self, kind: LoadBalancerType) -> bool:
        """Whether it could have this type, as it is."""
        return kind.max_targets >= len(self.targets) and kind.max_services >= len(self.services)


class ActionError(Part, frozen=True):
    """Why something failed."""

    code: str = "unknown"
    message: str = ""


class CertificateStatus(Part, frozen=True):
    """How far a managed certificate is; each is ``pending``, ``completed``, ``failed`` and others."""

    issuance: str = ""
    renewal: str = ""
    error: ActionError | None = None


class CertificateUser(Part, frozen=True):
    """What serves with a certificate."""

    id: int = 0
    type: str = ""


class Certificate(Part, frozen=True):
    """A TLS certificate."""

    id: int
    name: str
    type: str = "uploaded"
    domain_names: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    used_by: tuple[CertificateUser, ...] = ()
    status: CertificateStatus | None = None


class Action(Part, frozen=True):
    """Work that the cloud does in the background."""

    id: int
    command: str = ""
    status: str = "running"
    error: ActionError | None = None


class Pagination(Part, frozen=True):
    """The position of a page in a list."""

    page: int = 1
    next_page: int | None = None
    total_entries: int | None = None


class Meta(Part, frozen=True):
    """What accompanies a list."""

    pagination: Pagination = Pagination()
