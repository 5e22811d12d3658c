"""The desired state of a Service's load balancer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ccm.cloud import CloudError, Notice
from ccm.hetzner.api.models import Certificate, LoadBalancerService, LoadBalancerType, PrimaryIp
from ccm.hetzner.load_balancers.spec import CertificateSpec
from ccm.hetzner.load_balancers.targets import Identity, Target


@dataclass(frozen=True)
class Placement:
    """The place of a new load balancer: a location, or any location in a network zone."""

    location: str = ""
    network_zone: str = ""

    def __str__(self) -> str:
        return f"in {self.location or self.network_zone}"


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The desired state of a load balancer. None = any value, or not our decision."""

    name: str
    labels: Mapping[str, str]  # all of its labels
    type: LoadBalancerType | None = None
    public: bool | None = None  # whether the public interface is enabled
    network: int | None = None  # the private network; None = no change
    private_ip: str = ""  # its private address; empty = any
    ip_range: str = ""  # the range of its address when it is attached; empty = any
    listeners: tuple[LoadBalancerService, ...] = ()
    targets: tuple[Target, ...] | None = None
    # reverse DNS names by `ipv4` and `ipv6`; None = the default; a missing key = unchanged
    rdns: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    # by name, values of settings with a separate action; a missing key = unchanged
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    resets: frozenset[str] = frozenset()  # names of settings to reset to their defaults
    foreign_ports: frozenset[int] = frozenset()  # ports of listeners of other owners
    foreign_targets: frozenset[Identity] = frozenset()  # identities of targets of other owners
    reachable: frozenset[int] = frozenset()  # IDs of servers that have a public IPv4 address
    keeps_targets: bool = False  # whether all targets stay because no Node can be a target
    exists: bool = True  # whether a load balancer should exist
    site: Placement = field(default_factory=Placement)
    # the Primary IPs of a new load balancer, by `ipv4` and `ipv6`
    primary_ips: Mapping[str, PrimaryIp] = field(default_factory=dict[str, PrimaryIp])
    managed: frozenset[int] = frozenset()  # IDs of the managed certificates that its listeners need
    # managed certificates to request, by the negative placeholder number that ports have instead of an ID
    requests: Mapping[int, CertificateSpec] = field(default_factory=dict[int, CertificateSpec])
    retries: tuple[Certificate, ...] = ()  # failed managed certificates to issue again
    errors: tuple[CloudError, ...] = ()  # requests that can't be fulfilled
    notices: tuple[Notice, ...] = ()  # for the owner
