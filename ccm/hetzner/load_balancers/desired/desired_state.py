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
    """What a load balancer should be. None = it does not matter, or is not ours to decide.

    Attributes:
        labels: All of its labels.
        public: Whether it answers on public addresses.
        network: The private network that it is in; None = leave it where it is.
        private_ip: Its address there; empty = any.
        ip_range: Where it gets one when it enters; empty = anywhere.
        rdns: Reverse DNS names by ``ipv4`` and ``ipv6``; None = the default; a missing one does not matter.
        settings: Values of the settings that an action of their own changes, by name; a missing one does not
            matter.
        resets: Names of the settings that go back to their defaults.
        foreign_ports: Ports of listeners that belong to others.
        foreign_targets: Identities of targets that belong to others.
        reachable: Ids of servers that have a public IPv4 address.
        keeps_targets: Whether all targets stay because no Node can be one.
        exists: Whether there should be one at all.
        primary_ips: Those on which a new one is made, by ``ipv4`` and ``ipv6``.
        managed: Ids of the managed certificates that its listeners need.
        requests: Managed certificates to be requested, by the negative number that their ports have for the
            id meanwhile.
        retries: Failed managed certificates to be issued again.
        errors: Why it can't be all that is asked for.
        notices: What the owner should know.
    """

    name: str
    labels: Mapping[str, str]
    type: LoadBalancerType | None = None
    public: bool | None = None
    network: int | None = None
    private_ip: str = ""
    ip_range: str = ""
    listeners: tuple[LoadBalancerService, ...] = ()
    targets: tuple[Target, ...] | None = None
    rdns: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    resets: frozenset[str] = frozenset()
    foreign_ports: frozenset[int] = frozenset()
    foreign_targets: frozenset[Identity] = frozenset()
    reachable: frozenset[int] = frozenset()
    keeps_targets: bool = False
    exists: bool = True
    site: Placement = field(default_factory=Placement)
    primary_ips: Mapping[str, PrimaryIp] = field(default_factory=dict[str, PrimaryIp])
    managed: frozenset[int] = frozenset()
    requests: Mapping[int, CertificateSpec] = field(default_factory=dict[int, CertificateSpec])
    retries: tuple[Certificate, ...] = ()
    errors: tuple[CloudError, ...] = ()
    notices: tuple[Notice, ...] = ()
