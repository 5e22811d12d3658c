"""The observed state."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ccm.cloud import Notice, ServiceView
from ccm.hetzner.api.models import LoadBalancer, LoadBalancerType, Location, PrimaryIp, Server
from ccm.hetzner.load_balancers.cache import ObservedAddresses, ObservedCertificates
from ccm.hetzner.load_balancers.listeners import fields_of
from ccm.hetzner.load_balancers.ownership_labels import Ownership, ownership_of
from ccm.hetzner.load_balancers.targets import Candidates, Identity, Target, targets_of
from ccm.hetzner.settings import Tenants

# Names of settings, and of fields of ports.
Former = tuple[frozenset[str], frozenset[str]]
NOTHING: Former = (frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The observed state for one Service."""

    service: ServiceView
    balancer: LoadBalancer | None = None  # its load balancer; None = it must be created
    ownership: Ownership = field(default_factory=Ownership)  # from the load balancer's labels
    # whether the Service decides about the load balancer and its targets, not only about its own ports
    is_owner: bool = True
    adopting: bool = False  # the load balancer becomes ours now
    others: tuple[LoadBalancer, ...] = ()  # other load balancers that the Service owns or uses
    cluster: str = ""  # this cluster's ID; may be empty
    tenants: Tenants = field(default_factory=Tenants)
    network: int | None = None  # the private network
    # addresses in the network, if the load balancer changes its address; None = no change
    addresses: ObservedAddresses | None = None
    # the requested Primary IPs that the load balancer doesn't have, by `ipv4` and `ipv6`; None as a value =
    # the Primary IP doesn't exist
    primary_ips: Mapping[str, PrimaryIp | None] = field(default_factory=dict[str, "PrimaryIp | None"])
    # types of load balancers by name; empty = the type stays
    types: Mapping[str, LoadBalancerType] = field(default_factory=dict[str, LoadBalancerType])
    # all locations; empty = no location is requested, or the load balancer exists
    locations: Collection[Location] = ()
    zone: str = ""  # the network zone of most Nodes' servers; empty = not needed, or not known
    nodes: int = 0  # number of Nodes
    selected: int = 0  # number of Nodes that the selector matches
    candidates: Candidates = field(default_factory=Candidates)  # the possible targets of the selected Nodes
    # servers of the candidates and of the current targets, by ID
    servers: Mapping[int, Server] = field(default_factory=dict[int, Server])
    ours: frozenset[Identity] = frozenset()  # identities of this cluster's targets
    certificates: ObservedCertificates = field(default_factory=ObservedCertificates)
    notices: tuple[Notice, ...] = ()  # for the owner, about load balancers that are not deleted
    # Settings, and fields of ports, that were annotated at the last sync and no longer are. The official CCM
    # sets no label for them.
    former: Former = NOTHING

    @property
    def present(self) -> frozenset[Target]:
        """The targets of the load balancer, except label selectors."""
        return targets_of(self.balancer)

    @property
    def fields(self) -> Mapping[int, Mapping[str, object]]:
        """The fields of the existing listeners by port. Listeners may belong to other owners."""
        return (
            {listener.listen_port: fields_of(listener) for listener in self.balancer.services}
            if self.balancer
            else {}
        )

    def after(self, balancer: LoadBalancer) -> ObservedState:
        """The state with a new version of the load balancer."""
        ownership = ownership_of(self.service, balancer).with_annotated(*self.former)
        return replace(self, balancer=balancer, ownership=ownership)
