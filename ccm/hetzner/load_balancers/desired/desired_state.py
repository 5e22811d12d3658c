"""What a Service's load balancer should be."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ccm.cloud import CloudError, Notice
from ccm.hetzner.api.models import Certificate, LoadBalancerService, LoadBalancerType, PrimaryIp
from ccm.hetzner.load_balancers.spec import CertificateSpec
from ccm.hetzner.load_balancers.targets import Identity, Target


@dataclass(frozen=True)
class Placement:
    """Where a load balancer is made: in a location, or anywhere in a network zone."""

    location: str = ""
    network_zone: str = ""

    def __str__(self) -> str:
        return f"in {self.location or self.network_zone}"


@dataclass(frozen=True, slots=True)
class DesiredState:
    """What a load balancer should be. None = it does not matter, or we don't decide it."""

    name: str
    labels: Mapping[str, str]  # all of its labels
    type: LoadBalancerType | None = None
    public: bool | None = None  # whether it answers on public addresses
    network: int | None = None  # the private network; None = leave it where it is
    private_ip: str = ""  # its address there; empty = any
    ip_range: str = ""  # the range of its address when it joins the network; empty = any
    listeners: tuple[LoadBalancerService, ...] = ()
    targets: tuple[Target, ...] | None = None
    # reverse DNS names by `ipv4` and `ipv6`; None = the default; a missing key = unchanged
    rdns: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    # by name, values of the settings that have an action of their own; a missing key = unchanged
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    resets: frozenset[str] = frozenset()  # names of settings to reset to their defaults
    foreign_ports: frozenset[int] = frozenset()  # ports of listeners that belong to others
    foreign_targets: frozenset[Identity] = frozenset()  # identities of targets that belong to others
    reachable: frozenset[int] = frozenset()  # IDs of servers that have a public IPv4 address
    keeps_targets: bool = False  # whether all targets stay because no Node can be a target
    exists: bool = True  # whether there should be a load balancer
    site: Placement = field(default_factory=Placement)
    # the Primary IPs of a new one, by `ipv4` and `ipv6`
    primary_ips: Mapping[str, PrimaryIp] = field(default_factory=dict[str, PrimaryIp])
    managed: frozenset[int] = frozenset()  # IDs of the managed certificates that its listeners need
    # managed certificates to request, by the negative number that their ports have in place of the ID
    requests: Mapping[int, CertificateSpec] = field(default_factory=dict[int, CertificateSpec])
    retries: tuple[Certificate, ...] = ()  # failed managed certificates to issue again
    errors: tuple[CloudError, ...] = ()  # what is asked for and can't be done
    notices: tuple[Notice, ...] = ()  # for the owner
