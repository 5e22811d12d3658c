"""What there is."""

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
    """What there is, as far as a Service is concerned.

    Attributes:
        balancer: Its load balancer; None = it must be created.
        ownership: What that one's labels say.
        is_owner: Whether the Service decides about the load balancer and its targets, not only about its own
            ports.
        adopting: The load balancer becomes ours now.
        others: Load balancers on which the Service has something besides.
        cluster: This cluster's id; may be empty.
        network: The private network, or None.
        addresses: Those of the network, where the load balancer gives its own up for another; None = it
            does not.
        primary_ips: Those that the Service names and the load balancer is not known to have, by ``ipv4`` and
            ``ipv6``; None = there is none.
        types: The types of load balancers by name; empty = the type stays as it is.
        locations: The cloud's; empty = none was asked for, or there is a load balancer.
        zone: The network zone of most of the nodes' servers; empty = not needed, or not known.
        nodes: How many there are.
        selected: How many of them the owner wants.
        candidates: Which target each of these would be.
        servers: Those of the candidates and of the present targets, by id.
        ours: Identities of the targets that are this cluster's.
        notices: What the owner should know about where the load balancers went.
        former: Settings, and fields of ports, that were annotated when we looked before and are not any more.
            What the official CCM made of them has no label that says so.
    """

    service: ServiceView
    balancer: LoadBalancer | None = None
    ownership: Ownership = field(default_factory=Ownership)
    is_owner: bool = True
    adopting: bool = False
    others: tuple[LoadBalancer, ...] = ()
    cluster: str = ""
    tenants: Tenants = field(default_factory=Tenants)
    network: int | None = None
    addresses: ObservedAddresses | None = None
    primary_ips: Mapping[str, PrimaryIp | None] = field(default_factory=dict[str, "PrimaryIp | None"])
    types: Mapping[str, LoadBalancerType] = field(default_factory=dict[str, LoadBalancerType])
    locations: Collection[Location] = ()
    zone: str = ""
    nodes: int = 0
    selected: int = 0
    candidates: Candidates = field(default_factory=Candidates)
    servers: Mapping[int, Server] = field(default_factory=dict[int, Server])
    ours: frozenset[Identity] = frozenset()
    certificates: ObservedCertificates = field(default_factory=ObservedCertificates)
    notices: tuple[Notice, ...] = ()
    former: Former = NOTHING

    @property
    def present(self) -> frozenset[Target]:
        """The targets of the load balancer, but for label selectors."""
        return targets_of(self.balancer)

    @property
    def fields(self) -> Mapping[int, Mapping[str, object]]:
        """By port, the fields of the listeners that there are, which may belong to others."""
        return (
            {listener.listen_port: fields_of(listener) for listener in self.balancer.services}
            if self.balancer
            else {}
        )

    def after(self, balancer: LoadBalancer) -> ObservedState:
        """The same, with the load balancer as it is now."""
        ownership = ownership_of(self.service, balancer).with_annotated(*self.former)
        return replace(self, balancer=balancer, ownership=ownership)
