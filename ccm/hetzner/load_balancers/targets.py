"""Finds the possible target for each Node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import AddressValueError, IPv4Address

from ccm.cloud import EXTERNAL_IP, INTERNAL_IP, CloudError, NodeView, NotOurs
from ccm.hetzner.api.models import LoadBalancer, LoadBalancerTarget
from ccm.hetzner.provider_id import parse

NO_ROBOTS: Mapping[int, str] = {}
Identity = tuple[int, str]


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A target: a server, or the address of a Robot server."""

    server: int = 0  # the server's ID; 0 = the target is an address
    ip: str = ""  # the address; empty = the target is a server
    private: bool = False  # use the server's address in the private network

    @property
    def identity(self) -> Identity:
        """The target's identity in the API, which doesn't depend on the use of the private address."""
        return self.server, self.ip

    def __str__(self) -> str:
        what = f"server {self.server}" if self.server else f"address {self.ip}"
        return f"{what} by its private address" if self.private else what


def target_of(actual: LoadBalancerTarget) -> Target | None:
    """Convert a target. Returns None for label selectors, which we never create or change."""
    if actual.type == "server" and actual.server is not None:
        return Target(server=actual.server.id, private=actual.use_private_ip)
    if actual.type == "ip" and actual.ip is not None:
        return Target(ip=actual.ip.ip)
    return None


def targets_of(balancer: LoadBalancer | None) -> frozenset[Target]:
    """All targets of a load balancer, except label selectors."""
    found = (target_of(target) for target in balancer.targets) if balancer is not None else ()
    return frozenset(one for one in found if one is not None)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Targets by their Nodes' names, and why other Nodes are not targets."""

    by_node: Mapping[str, Target] = field(default_factory=dict[str, Target])  # in the order of the Nodes
    # names of other Nodes, by reason of an Event
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    # names of Nodes with public targets although private addresses are requested
    public: tuple[str, ...] = ()

    def without(self, names: Collection[str], reason: str) -> Candidates:
        """Exclude some Nodes, and record the reason."""
        rest = self.only(self.by_node.keys() - names)
        gone = tuple(node for node in self.by_node if node in names)
        return replace(rest, left_out={**self.left_out, **({reason: gone} if gone else {})})

    def only(self, names: Collection[str]) -> Candidates:
        """Only the candidates of these Nodes."""
        left_out = {
            reason: kept
            for reason, nodes in self.left_out.items()
            if (kept := tuple(node for node in nodes if node in names))
        }
        return Candidates(
            {name: target for name, target in self.by_node.items() if name in names},
            left_out,
            tuple(one for one in self.public if one in names),
        )


def candidates(
    nodes: Iterable[NodeView], scheme: str, *, private: bool, robots: Mapping[int, str] | None = NO_ROBOTS
) -> Candidates:
    """Find the target that each Node would be, without lookups.

    As with the official CCM, a Robot server without an internal address gets a public target. ``scheme`` is
    the prefix of provider IDs of Cloud servers. ``private``: use private addresses. ``robots`` contains
    public IPv4 addresses of Robot servers by number, if known; None = Robot is disabled.
    """
    found: dict[str, Target] = {}
    public: list[str] = []
    left_out: defaultdict[str, list[str]] = defaultdict(list)
    for node in sorted(nodes, key=lambda node: node.name):
        if not node.provider_id:
            continue  # not initialized yet; setting the provider ID triggers a sync
        try:
            machine = parse(node.provider_id, scheme)
        except (NotOurs, CloudError):
            left_out["UnknownProviderIDPrefix"].append(node.name)
            continue
        if machine.kind == "cloud":
            found[node.name] = Target(server=machine.number, private=private)
        elif robots is None:
            left_out["RobotNotEnabled"].append(node.name)
        elif private and (ip := _address(node, INTERNAL_IP)):
            found[node.name] = Target(ip=ip)
        elif ip := _address(node, EXTERNAL_IP) or robots.get(machine.number, ""):
            found[node.name] = Target(ip=ip)
            if private:
                public.append(node.name)
        else:
            left_out["InternalIPNotConfigured"].append(node.name)
    named = {reason: tuple(names) for reason, names in left_out.items()}
    return Candidates(found, named, tuple(public))


def _address(node: NodeView, wanted: str) -> str:
    """A Node's IPv4 address of a type. The API accepts only IPv4."""
    for address in node.addresses:
        if address.type == wanted:
            try:
                return str(IPv4Address(address.address))
            except AddressValueError:
                continue
    return ""
