"""What the cloud asks of the world below it: machines, networks and load balancers made real."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from hetzner_emulator.errors import EmulatorError

GuestEvent = Callable[[int, str], None]
"""Called with a server id when its power changes by itself.

``"off"``: the guest powered off or died; ``"running"``: it started again; ``"failed"``: it is off, because it
was to start and could not.
"""


class BackendError(EmulatorError):
    """The world below could not do what the API asked for; ends the action with this message."""


@dataclass(frozen=True)
class PrivateInterface:
    """One attachment of a server to a network."""

    network_id: int
    ip: str
    alias_ips: tuple[str, ...]
    mac_address: str


@dataclass(frozen=True)
class VolumeSpec:
    """One volume: ``size`` in GB; ``format`` is the file system that it comes with, ext4 or xfs, or None."""

    id: int
    size: int
    format: str | None = None


@dataclass(frozen=True)
class AttachedVolume:
    """A volume that a server has; ``automount`` tells that the server mounts it by itself."""

    volume: VolumeSpec
    automount: bool


@dataclass(frozen=True)
class MachineSpec:
    """One server as the backend sees it.

    ``public_ipv6`` is a /64 network, ``memory`` is in GB, ``architecture`` is that of the server type;
    ``image`` is the name of what it was made from, or empty; ``floating_ips`` are addresses and /64 networks
    that are led to it besides its own; ``snapshot`` is the id of the image that its disk begins as, None for
    one of the system.
    """

    id: int
    name: str
    public_ipv4: str | None
    public_ipv6: str | None
    cores: int
    memory: float
    private: tuple[PrivateInterface, ...]
    architecture: Literal["x86", "arm"] = "x86"
    image: str = ""
    volumes: tuple[AttachedVolume, ...] = ()
    floating_ips: tuple[str, ...] = ()
    snapshot: int | None = None


@dataclass(frozen=True)
class Route:
    """Traffic of a network to ``destination`` (CIDR) goes to the member ``gateway`` (address)."""

    destination: str
    gateway: str


@dataclass(frozen=True)
class NetworkSpec:
    """One private network."""

    id: int
    name: str
    ip_range: str
    subnets: tuple[str, ...]
    routes: tuple[Route, ...]


@dataclass(frozen=True)
class FirewallRule:
    """Traffic that a server's public interface lets through.

    ``ports`` are the first and the last one, None where the protocol has none or all are meant; ``ranges``
    (CIDR, both families) are where inbound traffic comes from, and where outbound traffic goes.
    """

    direction: Literal["in", "out"]
    protocol: Literal["tcp", "udp", "icmp", "esp", "gre"]
    ports: tuple[int, int] | None
    ranges: tuple[str, ...]


@dataclass(frozen=True)
class HealthCheck:
    """How a load balancer asks its targets; times in seconds."""

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
    """One listening port of a load balancer; ``certificates`` are PEM chains followed by their keys."""

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
    """One address that gets traffic, resolved from servers, label selectors and IP targets.

    ``private`` tells that the address is on the network of the load balancer; ``server_id`` is None for IPs.
    """

    address: str
    private: bool
    server_id: int | None


@dataclass(frozen=True)
class LoadBalancerSpec:
    """One load balancer with everything it needs to forward traffic."""

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
    """Makes what the API says real.

    Every method is idempotent, returns when the effect is there and raises :class:`BackendError` when it
    can't be had. Calls for one machine, network or load balancer never overlap.
    """

    name: str
    """``"machines"``, ``"hollow"``, or ``"records"``."""

    async def start(
        self, networks: Sequence[NetworkSpec], machines: Mapping[MachineSpec, bool], events: GuestEvent
    ) -> None:
        """Makes reality equal this after a (re)start.

        Args:
            networks: All networks that exist.
            machines: All servers that exist; True means powered on.
            events: Told when the power of a server changes by itself.
        """

    async def stop(self) -> None:
        """Ends the connection; machines stay up unless :meth:`remove_all` is called."""

    async def remove_all(self) -> None:
        """Leaves nothing of this site: namespaces, mounts, cgroups, processes, links, routes, files."""

    async def put_network(self, network: NetworkSpec) -> None:
        """Creates a network or changes its subnets and routes."""

    async def delete_network(self, network_id: int) -> None:
        """Removes a network; its members are detached already."""

    async def create_machine(self, machine: MachineSpec) -> None:
        """Makes disk and addresses; does not start the machine."""

    async def power_on(self, server_id: int) -> None:
        """Starts the machine."""

    async def power_off(self, server_id: int) -> None:
        """Pulls the plug."""

    async def shutdown(self, server_id: int) -> None:
        """Asks the guest to power off and returns at once; the event ``"off"`` comes later."""

    async def reboot(self, server_id: int) -> None:
        """Asks the guest to reboot and returns at once; the event ``"running"`` comes later."""

    async def reset(self, server_id: int) -> None:
        """Pulls the plug and starts again."""

    async def attach(self, server_id: int, interface: PrivateInterface, network: NetworkSpec) -> None:
        """Plugs the machine into a network, or changes the alias addresses of a plugged one."""

    async def detach(self, server_id: int, network_id: int) -> None:
        """Unplugs the machine from a network."""

    async def delete_machine(self, server_id: int) -> None:
        """Removes the machine with its disk and addresses."""

    async def create_image(self, image_id: int, server_id: int) -> float:  # noqa: ARG002  nothing is copied
        """Keeps a copy of a machine's disk, running or not; its size in GB."""
        return 0.0

    async def delete_image(self, image_id: int) -> None:
        """Removes such a copy; one that is gone is fine."""

    async def assign_floating_ip(self, server_id: int, address: str) -> None:
        """Leads an address, or a /64 network, to a machine, running or not."""

    async def unassign_floating_ip(self, server_id: int, address: str) -> None:
        """Leads it there no longer; one that is not led there is fine."""

    async def put_volume(self, volume: VolumeSpec) -> None:
        """Makes an empty volume, formatted if it shall be, or makes one larger; data are kept."""

    async def delete_volume(self, volume_id: int) -> None:
        """Removes a volume that no machine has, with its data; one that is gone is fine."""

    async def attach_volume(self, server_id: int, volume: AttachedVolume) -> None:
        """Gives a machine a volume, running or not."""

    async def detach_volume(self, server_id: int, volume_id: int) -> None:
        """Takes a volume from a machine; its data stay."""

    async def put_firewalls(self, wanted: Mapping[int, tuple[FirewallRule, ...]]) -> None:
        """Lets the public interfaces of these servers, by id, pass no more than their rules say.

        All traffic passes at servers that are not named. At those that are, nothing comes in but what a rule
        of that direction names; everything goes out unless there are rules of that direction. Answers to what
        was let through always pass. Calls never overlap.
        """

    async def put_load_balancer(self, load_balancer: LoadBalancerSpec) -> None:
        """Creates a load balancer or changes anything of it without cutting connections that can stay.

        It serves from then on: what ends by itself below is started again without being asked.
        """

    async def delete_load_balancer(self, load_balancer_id: int) -> None:
        """Removes a load balancer."""

    def target_health(self, load_balancer_id: int) -> Mapping[tuple[str, int], str]:
        """Health by (target address, listen port): ``"healthy"``, ``"unhealthy"``; missing is unknown."""
        ...

    def network_of(self, connection: socket.socket) -> int | None:
        """The network through which a connection to the API or the metadata service came.

        None: its peer's address is a public one, or the host's own.
        """

    async def measure(self) -> Mapping[tuple[str, int], Mapping[str, float]] | None:
        """Totals of everything that runs, by kind and id, then by series of the API's metrics.

        A total of the series ``cpu`` is in hundredths of a second; None: there is nothing to measure.
        """

    def target_failures(self, load_balancer_id: int) -> Mapping[tuple[str, int], tuple[str, int | None]]:  # noqa: ARG002
        """Why targets are unhealthy, by (target address, listen port): detail and status of HTTP."""
        return {}


class RecordsBackend(Backend):
    """Nothing below the API is real: every wish comes true at once and every target is healthy.

    What is not said here is as in the contract, whose methods do nothing.
    """

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
        """Remembers whom to tell that a guest obeyed a shutdown."""
        self._events = events

    async def shutdown(self, server_id: int) -> None:
        """A recorded guest obeys at once."""
        self._events(server_id, "off")

    async def create_image(self, image_id: int, server_id: int) -> float:  # noqa: ARG002  nothing is copied
        """A recorded disk has as much on it as one that a server begins with."""
        return 1.0

    async def put_load_balancer(self, load_balancer: LoadBalancerSpec) -> None:
        """Remembers the targets to call them healthy."""
        self._load_balancers[load_balancer.id] = load_balancer

    async def delete_load_balancer(self, load_balancer_id: int) -> None:
        """Forgets the targets."""
        self._load_balancers.pop(load_balancer_id, None)

    def target_health(self, load_balancer_id: int) -> Mapping[tuple[str, int], str]:
        """Every target of every service is healthy."""
        spec = self._load_balancers.get(load_balancer_id)
        if spec is None:
            return {}
        return {(t.address, s.listen_port): "healthy" for t in spec.targets for s in spec.services}
