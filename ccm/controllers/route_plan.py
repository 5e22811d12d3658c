"""Which routes to make and which to delete. Pure.

A Node's route leads from its Pods' CIDR to its machine's address in the network. Machines are told apart by
provider ID, so a Node may be called otherwise than its server; only a Node that has no provider ID yet is
looked for by its name.

What may be deleted:

- wherever it lies, one whose destination is exactly a Node's Pod CIDR and that leads elsewhere, if the right
  one can be made in its place. A network has one route to a destination, and this one is the Node's by the
  cluster's own word: as long as it leads elsewhere, nobody reaches these Pods. One that comes back after it
  was replaced is left: somebody needs it, as another cluster with the same Pod CIDRs does. So is the default
  route, which is no Node's;
- inside the cluster's CIDR, one that leads to a machine of ours (one that is, or was while we ran, a Node)
  and that this Node does not need;
- inside the cluster's CIDR, one that leads nowhere and was made for Pods: it has the size of a Node's CIDR,
  or overlaps one.

What else leads to a machine that never was a Node is somebody else's and stays. And nothing is deleted while
the machines of most Nodes can't be seen: then the picture is wrong, not the world, unless the owner says that
it is true. What the cloud itself shows to be incomplete never counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network

from ccm.cloud import Route, RouteTable
from ccm.ip import parse_network

Cidr = IPv4Network | IPv6Network
# A kubelet may register its Node with any Pod CIDR (NodeRestriction looks at no more than labels, taints and
# configSource). Hetzner takes this one beside the private ranges: it leads all servers to the Internet.
_DEFAULT_ROUTES = frozenset({"0.0.0.0/0", "::/0"})


@dataclass(frozen=True, slots=True)
class RouteNode:
    """A Node as far as routes are concerned.

    Attributes:
        provider_id: Empty until it is initialised.
        pod_cidrs: Its Pods' ranges.
        internal_ips: Where Kubernetes reaches it; a new route must lead to one of these, as with the official
            CCM.
    """

    name: str
    provider_id: str
    pod_cidrs: tuple[str, ...]
    internal_ips: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wish:
    """A route that a Node needs.

    Attributes:
        node: Its name.
        destination: One of its Pods' CIDRs.
        route: The route; None = it can't be made.
        problem: Why not.
        present: It is there already.
    """

    node: str
    destination: str
    route: Route | None = None
    problem: str = ""
    present: bool = False


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """What to do.

    Attributes:
        wishes: What each Node needs, in order of the Nodes; several for one Node if it has several CIDRs.
        deletions: Routes to delete, before anything is created.
        held_back: Routes that would be deleted if the picture of the machines could be trusted.
        outside: By Node, CIDRs that lie outside the cluster's.
        unroutable: By Node, CIDRs of a family that the network can't route.
        bare: Nodes that have a route and no CIDR yet: another Node of this machine is gone.
    """

    wishes: tuple[Wish, ...]
    deletions: tuple[Route, ...] = ()
    held_back: tuple[Route, ...] = ()
    outside: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    unroutable: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    bare: tuple[str, ...] = ()

    @property
    def creations(self) -> list[Wish]:
        """What is to be created."""
        return [wish for wish in self.wishes if wish.route is not None and not wish.present]

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.deletions or self.held_back or self.creations)

    @property
    def problems(self) -> bool:
        """Whether some Node can't have its route."""
        return any(wish.problem for wish in self.wishes)


def is_responsible(destination: str, cluster: Sequence[Cidr]) -> bool:
    """Whether a route's destination touches the cluster's CIDRs with its first or last address."""
    network = parse_network(destination)
    if network is None:
        return False
    return any(
        network.version == cidr.version
        and (network.network_address in cidr or network.broadcast_address in cidr)
        for cidr in cluster
    )


def plan_routes(
    nodes: Sequence[RouteNode],
    table: RouteTable,
    cluster: Sequence[Cidr],
    former: Collection[str] = (),
    *,
    disputed: Collection[Route] = (),
    mass_deletion_breaker: bool = True,
) -> RoutePlan:
    """Compare what is needed with what is there.

    Args:
        nodes: The Nodes of this cloud and those without provider ID. Who has no CIDR, or neither a provider
            ID nor the name of a machine, is of no concern yet.
        table: The network.
        cluster: The cluster's CIDRs.
        former: Provider IDs of machines that were Nodes while we ran.
        disputed: Routes that lead to nobody of ours, and were replaced lately.
        mass_deletion_breaker: Delete nothing while the machines of most Nodes can't be seen; False believes
            that they are gone.
    """
    nodes = _identified(nodes, table)
    bare = _bare(nodes, table)
    nodes = [node for node in nodes if node.pod_cidrs]
    ours = {node.provider_id for node in nodes} | set(former)
    addresses = {machine.provider_id: address for address, machine in table.machines.items()}
    contested = _contested_routes(nodes, table, addresses) - {*disputed}
    wrong = contested | _stale_routes(nodes, table, cluster, ours)
    stale = tuple(route for route in table.routes if route in wrong)
    trusted = table.complete and (not mass_deletion_breaker or _most_are_seen(nodes, addresses))
    deletions, held_back = (stale, ()) if trusted else ((), stale)
    staying = {canonical(route.destination): route for route in table.routes if route not in deletions}
    wishes: list[Wish] = []
    outside: dict[str, tuple[str, ...]] = {}
    unroutable: dict[str, tuple[str, ...]] = {}
    claimed: dict[str, str] = {}
    for node in nodes:
        for text in dict.fromkeys(map(canonical, node.pod_cidrs)):
            cidr = parse_network(text)
            if cidr is None or cidr.version not in table.families:
                unroutable[node.name] = (*unroutable.get(node.name, ()), text)
                continue
            if not any(_inside(cidr, whole) for whole in cluster):
                outside[node.name] = (*outside.get(node.name, ()), text)
            if text in _DEFAULT_ROUTES:
                problem = "that is the network's default route, and no range of Pods"
                wishes.append(Wish(node.name, text, problem=problem))
                continue
            if claimed.setdefault(text, node.name) != node.name:
                problem = f"node {claimed[text]} has the same pod CIDR"
                wishes.append(Wish(node.name, text, problem=problem))
                continue
            wishes.append(_wish(node, text, addresses.get(node.provider_id), staying.get(text), table))
    return RoutePlan(tuple(wishes), deletions, held_back, outside, unroutable, bare)


def canonical(text: str) -> str:
    """A CIDR as everybody writes it; what is none stays as it is."""
    cidr = parse_network(text)
    return text if cidr is None else str(cidr)


def _identified(nodes: Sequence[RouteNode], table: RouteTable) -> list[RouteNode]:
    """The Nodes whose machine is known: by provider ID, else by name, if one machine alone has it."""
    names = Counter(machine.name for machine in table.machines.values())
    by_name = {machine.name: machine for machine in table.machines.values() if names[machine.name] == 1}
    known = [node for node in nodes if node.provider_id]
    taken = {node.provider_id for node in known}
    for node in nodes:
        machine = by_name.get(node.name)
        if not node.provider_id and machine is not None and machine.provider_id not in taken:
            known.append(replace(node, provider_id=machine.provider_id))
    return known


def _most_are_seen(nodes: Sequence[RouteNode], addresses: Collection[str]) -> bool:
    """Whether so few Nodes lack their machine in the network that this may be true."""
    missing = sum(node.provider_id not in addresses for node in nodes)
    return missing < len(nodes) and (missing <= 2 or missing <= len(nodes) / 2)


def _wish(
    node: RouteNode, destination: str, address: str | None, existing: Route | None, table: RouteTable
) -> Wish:
    if address is None:
        return Wish(node.name, destination, problem="its machine is not in the network")
    route = Route(destination, address)
    if existing is not None and existing.gateway == address:
        return Wish(node.name, destination, route, present=True)
    if address not in node.internal_ips:
        problem = f"its machine has {address} in the network, which is no InternalIP of the node"
        return Wish(node.name, destination, problem=problem)
    if existing is None:
        return Wish(node.name, destination, route)
    machine = table.machines.get(existing.gateway)
    owner = f"machine {machine.name}, which is not this node's" if machine else "no machine"
    problem = f"the network's route to it leads to {existing.gateway}, {owner}; delete that if it is wrong"
    return Wish(node.name, destination, problem=problem)


def _bare(nodes: Sequence[RouteNode], table: RouteTable) -> tuple[str, ...]:
    machines = (table.machines.get(route.gateway) for route in table.routes)
    reached = {machine.provider_id for machine in machines if machine}
    return tuple(node.name for node in nodes if not node.pod_cidrs and node.provider_id in reached)


def _contested_routes(
    nodes: Sequence[RouteNode], table: RouteTable, addresses: Mapping[str, str]
) -> set[Route]:
    """Routes to exactly a Node's Pod CIDR that lead elsewhere, where the right one can be made."""
    needed = _needed(nodes)
    right: dict[str, str | None] = {}
    for node in nodes:
        address = addresses.get(node.provider_id)
        for destination in needed[node.provider_id]:
            possible = address in node.internal_ips and destination not in _DEFAULT_ROUTES
            right.setdefault(destination, address if possible else None)

    def is_contested(route: Route) -> bool:
        destination = canonical(route.destination)
        machine = table.machines.get(route.gateway)
        if machine is not None and destination in needed.get(machine.provider_id, ()):
            return False  # it is right, or two Nodes have the same CIDR, which only their owner can mend
        return right.get(destination) is not None

    return {route for route in table.routes if is_contested(route)}


def _stale_routes(
    nodes: Sequence[RouteNode], table: RouteTable, cluster: Sequence[Cidr], ours: Collection[str]
) -> set[Route]:
    """Routes inside the cluster's CIDR that once were a Node's."""
    needed = _needed(nodes)
    cidrs = [cidr for node in nodes for text in node.pod_cidrs if (cidr := parse_network(text))]

    def is_stale(route: Route) -> bool:
        machine = table.machines.get(route.gateway)
        if machine is None:
            return _made_for_pods(route, cidrs)
        unneeded = canonical(route.destination) not in needed.get(machine.provider_id, ())
        return machine.provider_id in ours and unneeded

    return {route for route in table.routes if is_responsible(route.destination, cluster) and is_stale(route)}


def _needed(nodes: Sequence[RouteNode]) -> dict[str, set[str]]:
    """The destinations that the Nodes of each machine need, by its provider ID.

    A machine has two Nodes where its kubelet took another name, or where a kubelet says it is another's.
    """
    needed: defaultdict[str, set[str]] = defaultdict(set)
    for node in nodes:
        needed[node.provider_id] |= set(map(canonical, node.pod_cidrs))
    return needed


def _made_for_pods(route: Route, cidrs: Sequence[Cidr]) -> bool:
    destination = parse_network(route.destination)
    if destination is None:
        return False
    same = [cidr for cidr in cidrs if cidr.version == destination.version]
    return any(cidr.prefixlen == destination.prefixlen or cidr.overlaps(destination) for cidr in same)


def _inside(cidr: Cidr, whole: Cidr) -> bool:
    return cidr.version == whole.version and cidr.network_address in whole and cidr.broadcast_address in whole
