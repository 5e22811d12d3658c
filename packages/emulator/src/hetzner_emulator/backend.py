"""The interface of backends, which create machines, networks and load balancers, and one without effects."""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from hetzner_emulator.errors import EmulatorError

GuestEvent = Callable[[int, str], None]
"""The backend calls this function with a server's ID and state if the power changes without an API call.

``"off"``: the guest powered off or crashed. ``"running"``: the guest started again. ``"failed"``: the guest
couldn't start.
"""


class BackendError(EmulatorError):
    """The backend failed; the action ends with this message."""


@dataclass(frozen=True)
class PrivateInterface:
    """An attachment of a server to a network."""

    network_id: int
    ip: str
    alias_ips: tuple[str, ...]
    mac_address: str


@dataclass(frozen=True)
class VolumeSpec:
    """A volume: ``size`` in GB; ``format`` is its first file system, ext4 or xfs, or None."""

    id: int
    size: int
    format: str | None = None


@dataclass(frozen=True)
class AttachedVolume:
    """A volume of a server; with ``automount`` the server mounts it."""

    volume: VolumeSpec
    automount: bool


@dataclass(frozen=True)
class MachineSpec:
    """A server as the backend sees it."""

    id: int
    name: str
    public_ipv4: str | None
    public_ipv6: str | None  # a /64 network
    cores: int
    memory: float  # in GB
    private: tuple[PrivateInterface, ...]
    architecture: Literal["x86", "arm"] = "x86"  # of the server type
    image: str = ""  # name of its image, or empty
    volumes: tuple[AttachedVolume, ...] = ()
    floating_ips: tuple[str, ...] = ()  # further addresses and /64 networks
    snapshot: int | None = None  # ID of the image of its first disk, None for a system image


@dataclass(frozen=True)
class Route:
    """A route in a network from ``destination`` (CIDR) to the member ``gateway`` (address)."""

    destination: str
    gateway: str


@dataclass(frozen=True)
class NetworkSpec:
    """A private network."""

    id: int
    name: str
    ip_range: str
    subnets: tuple[str, ...]
    routes: tuple[Route, ...]


@dataclass(frozen=True)
class FirewallRule:
    """Traffic that a server's public interface accepts."""

    direction: Literal["in", "out"]
    protocol: Literal["tcp", "udp", "icmp", "esp", "gre"]
    ports: tuple[int, int] | None  # first and last; None for all or for a protocol without ports
    ranges: tuple[str, ...]  # sources of inbound, destinations of outbound traffic; CIDR, both families


@dataclass(frozen=True)
class HealthCheck:
    """A health check of targets; times in seconds."""

    protocol: Literal["tcp", "http"]
    port: int
    interval: int
    timeout: int
    retries: int
    domain: str | None = None
    path: str = "/"
    response: str = ""
    status_codes: tuple[str, ...] = ("2??", "3??")
    tls: bool = False


@dataclass(frozen=True)
class LoadBalancerService:
    """A service of a load balancer; ``certificates`` are PEM chains followed by their keys."""

    protocol: Literal["tcp", "http", "https"]
    listen_port: int
    destination_port: int
    proxyprotocol: bool
    health_check: HealthCheck
    sticky_sessions: bool = False
    cookie_name: str = "HCLBSTICKY"
    cookie_lifetime: int = 300
    timeout_idle: int = 50
    redirect_http: bool = False
    certificates: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadBalancerTarget:
    """The address of a target, resolved from servers, label selectors, and IP targets."""

    address: str
    private: bool  # in the network of the load balancer
    server_id: int | None  # None for IP targets


@dataclass(frozen=True)
class LoadBalancerSpec:
    """A load balancer with everything that it needs to forward traffic."""

    id: int
    name: str
    public_enabled: bool
    public_ipv4: str
    public_ipv6: str
    private: tuple[tuple[int, str], ...]  # (network id, address)
    algorithm: Literal["round_robin", "least_connections"]
    max_connections: int
    services: tuple[LoadBalancerService, ...]
    targets: tuple[LoadBalancerTarget, ...] = field(default=())


class Backend(Protocol):
    """Creates what the API shows.

    Every method is idempotent, returns after its effect, and raises :class:`BackendError` if it fails. Calls
    for one machine, network, or load balancer don't overlap.
    """

    name: str
    """``"machines"``, ``"hollow"``, or ``"records"``."""

    async def start(
        self, networks: Sequence[NetworkSpec], machines: Mapping[MachineSpec, bool], events: GuestEvent
    ) -> None:
        """Makes the backend equal the state at the start: all networks, all servers (True: powered on)."""

    async def stop(self) -> None:
        """Disconnects; machines keep running unless :meth:`remove_all` is called."""

    async def remove_all(self) -> None:
        """Deletes everything: namespaces, mounts, cgroups, processes, links, routes, files."""

    async def put_network(self, network: NetworkSpec) -> None:
        """Creates a network or changes its subnets and routes."""

    async def delete_network(self, network_id: int) -> None:
        """Removes a network without members."""

    async def create_machine(self, machine: MachineSpec) -> None:
        """Creates disk and addresses, without starting the machine."""

    async def power_on(self, server_id: int) -> None:
        """Starts the machine."""

    async def power_off(self, server_id: int) -> None:
        """Stops the machine at once."""

    async def shutdown(self, server_id: int) -> None:
        """Signals the guest to power off; the event ``"off"`` follows."""

    async def reboot(self, server_id: int) -> None:
        """Signals the guest to reboot; the event ``"running"`` follows."""

    async def reset(self, server_id: int) -> None:
        """Stops the machine at once and starts it."""

    async def attach(self, server_id: int, interface: PrivateInterface, network: NetworkSpec) -> None:
        """Attaches the machine to a network, or changes its alias addresses."""

    async def detach(self, server_id: int, network_id: int) -> None:
        """Detaches the machine from a network."""

    async def delete_machine(self, server_id: int) -> None:
        """Removes the machine with its disk and addresses."""

    async def create_image(self, image_id: int, server_id: int) -> float:  # noqa: ARG002  nothing is copied
        """Copies a machine's disk, running or not; returns the size in GB."""
        return 0.0

    async def delete_image(self, image_id: int) -> None:
        """Deletes such a copy."""

    async def assign_floating_ip(self, server_id: int, address: str) -> None:
        """Routes an address, or a /64 network, to a machine, running or not."""

    async def unassign_floating_ip(self, server_id: int, address: str) -> None:
        """Removes the route."""

    async def put_volume(self, volume: VolumeSpec) -> None:
        """Creates a volume, formatted if it has a format, or grows it with its data."""

    async def delete_volume(self, volume_id: int) -> None:
        """Deletes a volume that no machine has."""

    async def attach_volume(self, server_id: int, volume: AttachedVolume) -> None:
        """Attaches a volume to a machine, running or not."""

    async def detach_volume(self, server_id: int, volume_id: int) -> None:
        """Detaches a volume with its data."""

    async def put_firewalls(self, wanted: Mapping[int, tuple[FirewallRule, ...]]) -> None:
        """Sets the rules of public interfaces by server ID.

        Servers without rules here accept all traffic. The others accept inbound traffic that matches an
        inbound rule. They accept outbound traffic that matches an outbound rule, or all without such a rule.
        Replies always pass. Calls don't overlap.
        """

    async def put_load_balancer(self, load_balancer: LoadBalancerSpec) -> None:
        """Creates or changes a load balancer without closing connections, and restarts it after crashes."""

    async def delete_load_balancer(self, load_balancer_id: int) -> None:
        """Removes a load balancer."""

    def target_health(self, load_balancer_id: int) -> Mapping[tuple[str, int], str]:
        """``"healthy"`` or ``"unhealthy"`` by (target address, listen port); missing is unknown."""
        ...

    def network_of(self, connection: socket.socket) -> int | None:
        """The network of the peer of a connection; None if its address is public, or the host's own."""

    async def measure(self) -> Mapping[tuple[str, int], Mapping[str, float]] | None:
        """Totals by kind and ID, then by series of the API's metrics; None if the backend can't measure.

        A total of the series ``cpu`` is in hundredths of a second.
        """

    def target_failures(self, load_balancer_id: int) -> Mapping[tuple[str, int], tuple[str, int | None]]:  # noqa: ARG002
        """Detail and HTTP status of unhealthy targets by (target address, listen port)."""
        return {}


class RecordsBackend(Backend):
    """A backend without machines: every call succeeds at once and every target is healthy."""

    name = "records"

    def __init__(self) -> None:
        self._load_balancers: dict[int, LoadBalancerSpec] = {}
        self._events: GuestEvent = lambda _server, _state: None

    async def start(
        self,
        networks: Sequence[NetworkSpec],  # noqa: ARG002  records have nothing to compare with
        machines: Mapping[MachineSpec, bool],  # noqa: ARG002
        events: GuestEvent,
    ) -> None:
        """Stores the callback for :meth:`shutdown`."""
        self._events = events

    async def shutdown(self, server_id: int) -> None:
        """Powers off at once."""
        self._events(server_id, "off")

    async def create_image(self, image_id: int, server_id: int) -> float:  # noqa: ARG002  nothing is copied
        """Returns the size of a new disk."""
        return 1.0

    async def put_load_balancer(self, load_balancer: LoadBalancerSpec) -> None:
        """Stores the targets, which are healthy."""
        self._load_balancers[load_balancer.id] = load_balancer

    async def delete_load_balancer(self, load_balancer_id: int) -> None:
        """Deletes the targets."""
        self._load_balancers.pop(load_balancer_id, None)

    def target_health(self, load_balancer_id: int) -> Mapping[tuple[str, int], str]:
        """All targets are healthy."""
        spec = self._load_balancers.get(load_balancer_id)
        if spec is None:
            return {}
        return {(t.address, s.listen_port): "healthy" for t in spec.targets for s in spec.services}
