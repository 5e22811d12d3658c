"""The fields of the Hetzner Cloud API's objects that we use, with the names and types of the API."""

import msgspec


class Part(msgspec.Struct, frozen=True, gc=False):
    """The base of all models: immutable, and not tracked by the garbage collector."""


class Named(Part, frozen=True):
    """An object of which we use only the name."""

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
        """The public IPv4 address; empty = none."""
        return (self.public_net.ipv4 and self.public_net.ipv4.ip) or ""

    def private_ip(self, network: int | None) -> str | None:
        """The server's address in a network, or None if the server isn't attached."""
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
    """A load balancer's public interface."""

    enabled: bool = True
    ipv4: PublicAddress = PublicAddress()
    ipv6: PublicAddress = PublicAddress()

    def of(self, family: str) -> PublicAddress:
        """The address of a family, ``ipv4`` or ``ipv6``."""
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
    """The time at which a resource becomes unavailable."""

    unavailable_after: str | None = None


class LoadBalancerType(Part, frozen=True):
    """A type of load balancer with its limits."""

    id: int = 0
    name: str = ""
    max_services: int = 0
    max_targets: int = 0
    deprecated: str | None = None  # until 2026-11-02; since then, deprecation
    deprecation: Deprecation | None = None


class HealthCheckHttp(Part, frozen=True):
    """The request and the accepted responses of an HTTP health check."""

    domain: str | None = None
    path: str = "/"
    response: str | None = None
    status_codes: tuple[str, ...] = ()
    tls: bool = False


class HealthCheck(Part, frozen=True):
    """The health check of a service; times in seconds."""

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
        """The ports in use: the listen port, and 80 if the listener redirects from port 80."""
        redirects = self.http is not None and self.http.redirect_http
        return frozenset({self.listen_port, 80} if redirects else {self.listen_port})


class TargetServer(Part, frozen=True):
    """A target's server."""

    id: int


class TargetIp(Part, frozen=True):
    """A target's address."""

    ip: str


class TargetHealth(Part, frozen=True):
    """The health of a target for one service, and the reason if the target is unhealthy."""

    listen_port: int = 0
    status: str = "unknown"
    detail: str | None = None
    http_status_code: int | None = None

    @property
    def reason(self) -> str:
        """Hetzner's reason, with the status of an HTTP response; empty = none."""
        return f"{self.detail or ''} {self.http_status_code or ''}".strip()


class LoadBalancerTarget(Part, frozen=True):
    """A target of a load balancer. For a label selector, only the type is kept."""

    type: str
    server: TargetServer | None = None
    ip: TargetIp | None = None
    use_private_ip: bool = False
    health_status: tuple[TargetHealth, ...] = ()


class Protection(Part, frozen=True):
    """The protection of a resource."""

    delete: bool = False


class Algorithm(Part, frozen=True):
    """The algorithm that selects a target."""

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
        """IDs of the certificates in use."""
        return frozenset(
            number for listener in self.services if listener.http for number in listener.http.certificates
        )

    def is_in(self, network: int, ip: str) -> bool:
        """Whether the load balancer is in a network with this address; empty = any address."""
        return any(net.network == network and ip in ("", net.ip) for net in self.private_net)

    def fits(self, kind: LoadBalancerType) -> bool:
        """Whether the limits of this type suffice for the load balancer."""
        return kind.max_targets >= len(self.targets) and kind.max_services >= len(self.services)


class ActionError(Part, frozen=True):
    """The error of an action or a certificate."""

    code: str = "unknown"
    message: str = ""


class CertificateStatus(Part, frozen=True):
    """The states of a managed certificate, for example ``pending``, ``completed`` or ``failed``."""

    issuance: str = ""
    renewal: str = ""
    error: ActionError | None = None


class CertificateUser(Part, frozen=True):
    """A resource that uses a certificate."""

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
    """An action that runs in the background."""

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
    """The metadata of a list."""

    pagination: Pagination = Pagination()
