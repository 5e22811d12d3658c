"""Which servers traffic goes to. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from ccm.cloud import EXTERNAL_IP, INTERNAL_IP, CloudError, NodeView, Notice, NotOurs
from ccm.hetzner.api.wire import LoadBalancerTarget, Server
from ccm.hetzner.load_balancers.wording import enumerated
from ccm.hetzner.provider_id import parse

NO_ROBOTS: Mapping[int, str] = {}


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """Where traffic goes: a server, or the address of a Robot server.

    Attributes:
        server: Its id; 0 = it is an address.
        ip: The address; empty = it is a server.
        private: Use the server's address in the private network.
    """

    server: int = 0
    ip: str = ""
    private: bool = False

    @property
    def identity(self) -> tuple[int, str]:
        """What the API tells targets apart by: not by whether the private address is used."""
        return self.server, self.ip

    def __str__(self) -> str:
        what = f"server {self.server}" if self.server else f"address {self.ip}"
        return f"{what} by its private address" if self.private else what


def target_of(actual: LoadBalancerTarget) -> Target | None:
    """A load balancer's target; None for label selectors, which we never make and leave alone."""
    if actual.type == "server" and actual.server is not None:
        return Target(server=actual.server.id, private=actual.use_private_ip)
    if actual.type == "ip" and actual.ip is not None:
        return Target(ip=actual.ip.ip)
    return None


@dataclass(frozen=True, slots=True)
class Candidates:
    """Targets by their Nodes' names, and why other Nodes are none.

    Attributes:
        by_node: In the order of the Nodes.
        left_out: By reason of an Event, the names of Nodes.
        public: Names of those that are reached by public addresses, though private ones are wanted.
    """

    by_node: Mapping[str, Target]
    left_out: Mapping[str, tuple[str, ...]]
    public: tuple[str, ...] = ()


# Event reasons (the official CCM's where it has one) and what they mean.
_WHY = {
    "UnknownProviderIDPrefix": "their provider IDs are not Hetzner's",
    "ServerNotFound": "their servers don't exist in this project",
    "PublicIPv4Missing": "they have no public IPv4 address; use private addresses "
    "(load-balancer.hetzner.cloud/use-private-ip) or give them one",
    "ServerNotInNetwork": "their servers are not in the private network",
    "InternalIPNotConfigured": "no address of theirs is known that a load balancer could use",
    "RobotNotEnabled": "they are dedicated servers, and ROBOT_ENABLED is not set",
    "MaxTargetsReached": "the load balancer's type takes no more targets; choose a larger one with "
    "load-balancer.hetzner.cloud/type, or fewer nodes with load-balancer.hetzner.cloud/node-selector",
}


def candidates(
    nodes: Iterable[NodeView], scheme: str, *, private: bool, robots: Mapping[int, str] | None = NO_ROBOTS
) -> Candidates:
    """Find out which target each Node would be; nothing is looked up.

    A dedicated server without an internal address is reached by its public one, as the official CCM does it.

    Args:
        nodes: The Nodes that the Service's owner wants.
        scheme: What provider IDs of Cloud servers start with.
        private: Use private addresses.
        robots: Public IPv4 addresses of dedicated servers by number, as far as Robot was asked; None = there
            are none to be in this cluster.
    """
    found: dict[str, Target] = {}
    public: list[str] = []
    left_out: defaultdict[str, list[str]] = defaultdict(list)
    for node in sorted(nodes, key=lambda one: one.name):
        if not node.provider_id:
            continue  # not initialised yet; its provider ID brings us back
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
    told = {reason: tuple(names) for reason, names in left_out.items()}
    return Candidates(found, told, tuple(public))


def _address(node: NodeView, wanted: str) -> str:
    """A Node's IPv4 address of a kind; the API takes no others."""
    for address in node.addresses:
        if address.type == wanted:
            try:
                return str(IPv4Address(address.address))
            except AddressValueError:
                continue
    return ""


def settle(
    wanted: Candidates,
    present: Collection[Target],
    server: Callable[[int], Server | None],
    *,
    network: int | None,
    limit: int,
) -> tuple[tuple[Target, ...], list[Notice]]:
    """Choose the targets that are possible.

    What is a target already stays one, so that nothing moves when there is no room for all; after that names
    decide, so that the choice is the same each time.

    Args:
        wanted: What the Nodes would be.
        present: The load balancer's targets now.
        server: Looks a server up by id; None = there is none.
        network: The private network, or None.
        limit: How many targets the type takes.
    """
    left_out = {reason: list(names) for reason, names in wanted.left_out.items()}
    possible: list[tuple[bool, str, Target]] = []
    identities = {one.identity for one in present}
    for name, target in wanted.by_node.items():
        why = None if target in present else _obstacle(target, server, network)
        if why is None:
            possible.append((target.identity not in identities, name, target))
        else:
            left_out.setdefault(why, []).append(name)
    possible.sort(key=lambda one: one[:2])
    too_many = sorted(name for _, name, _ in possible[limit:])
    if too_many:
        left_out["MaxTargetsReached"] = too_many
    chosen = {target.identity: target for _, _, target in possible[:limit]}
    notices = [_notice(reason, names) for reason, names in left_out.items()]
    if wanted.public:
        text = (
            "These nodes get traffic by their public addresses, though private ones are wanted, because they "
            f"have no internal IPv4 address: {enumerated(wanted.public)}"
        )
        notices.append(Notice("InternalIPNotConfigured", text))
    return tuple(sorted(chosen.values())), notices


def _obstacle(target: Target, find: Callable[[int], Server | None], network: int | None) -> str | None:
    if not target.server:
        return None
    server = find(target.server)
    if server is None:
        return "ServerNotFound"
    if target.private:
        return None if server.private_ip(network) else "ServerNotInNetwork"
    has_public = server.public_net.ipv4 is not None and server.public_net.ipv4.ip
    return None if has_public else "PublicIPv4Missing"


def _notice(reason: str, names: Sequence[str]) -> Notice:
    text = f"These nodes get no traffic from the load balancer, because {_WHY[reason]}: {enumerated(names)}"
    return Notice(reason, text)
