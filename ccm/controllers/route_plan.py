"""Which routes to make and which to delete.

A Node's route leads from its Pods' CIDR to its machine's address in the network. Machines are identified by
provider ID; only a Node that has no provider ID yet is looked for by its name.

A kubelet may register a Node with any name that is free, and with any provider ID and Pod CIDR:
NodeRestriction looks at no more than labels, taints and configSource. So both are claims. A claim is granted
if its route is there already; else if

- the CIDR is inside the ranges that Pods may have,
- the cloud says that the machine may be this Node's (:attr:`~ccm.cloud.Machine.node`),
- no granted claim of another Node has this machine, or overlaps this CIDR.

Of several such claims those whose route is there come first, then those whose machine the cloud confirms,
then older Nodes. Only the later ones get the problem.

What may be deleted, only inside the ranges that Pods may have:

- one whose destination is exactly a granted Pod CIDR and that leads elsewhere, if the right one can be made
  in its place. A network has one route to a destination: as long as it leads elsewhere, these Pods are
  unreachable. A route that comes back after it was replaced is left: its owner needs it, such as another
  cluster with the same Pod CIDRs. So is the default route, which is no Node's;
- one that leads to a machine of ours (the cloud confirms that it is, or was while we ran, a Node's) and that
  no Node of it claims;
- one that leads nowhere and was made for Pods: it has the size of a granted CIDR, or overlaps one, or is that
  of a Node whose machine is gone.

Other routes to a machine that never was a Node aren't ours, and stay. And nothing is deleted while
the machines of most Nodes can't be seen: then the picture is wrong, not the world, unless the owner says that
it is true. What the cloud itself shows to be incomplete never counts.
"""

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network

from ccm.cloud import Machine, Route, RouteTable
from ccm.ip import parse_network

Cidr = IPv4Network | IPv6Network
# Hetzner takes this one beside the private ranges: it leads all servers to the Internet.
_DEFAULT_ROUTES = frozenset({"0.0.0.0/0", "::/0"})


@dataclass(frozen=True, slots=True)
class RouteNode:
    """A Node's data for routes; ``provider_id`` is empty until it is initialized.

    A new route must lead to one of its ``internal_ips``, as with the official CCM. ``created``: seconds since
    1970.
    """

    name: str
    provider_id: str
    pod_cidrs: tuple[str, ...]
    internal_ips: tuple[str, ...]
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """A route that a Node needs, if it can be made (else ``problem``), and whether it is there already."""

    node: str
    destination: str
    route: Route | None = None
    problem: str = ""
    present: bool = False


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """The changes to make."""

    # the routes that each Node needs, in order of the Nodes; one per CIDR of the Node
    specs: tuple[RouteSpec, ...]
    deletions: tuple[Route, ...] = ()  # routes to delete, before anything is created
    # routes that would be deleted if the list of machines could be trusted
    held_back: tuple[Route, ...] = ()
    # by Node, its CIDRs outside the cluster's
    outside: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    # by Node, its CIDRs of a family that the network can't route
    unroutable: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    # Nodes with a route and no CIDR yet: an earlier Node of this machine is gone
    bare: tuple[str, ...] = ()

    @property
    def creations(self) -> list[RouteSpec]:
        """What is to be created."""
        return [
            route_spec for route_spec in self.specs if route_spec.route is not None and not route_spec.present
        ]

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.deletions or self.held_back or self.creations)

    @property
    def problems(self) -> bool:
        """Whether some Node can't have its route."""
        return any(route_spec.problem for route_spec in self.specs)


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
    ranges: Sequence[Cidr],
    former: Iterable[RouteNode] = (),
    *,
    disputed: Collection[Route] = (),
    mass_deletion_breaker: bool = True,
) -> RoutePlan:
    """Compare the routes that are needed with those that exist.

    Args:
        nodes: The Nodes of this cloud and those without a provider ID. Nodes without a CIDR, and Nodes with
            neither a provider ID nor the name of a machine, get no route.
        table: The routes and machines of the network.
        ranges: The ranges of all Pod CIDRs.
        former: Nodes that were deleted since the controller started.
        disputed: Recently replaced routes to machines that aren't Nodes of this cluster.
        mass_deletion_breaker: If the machines of most Nodes are missing, delete no routes.
    """
    nodes = _identified(nodes, table)
    bare = _bare(nodes, table)
    nodes = [node for node in nodes if node.pod_cidrs]
    machines = {machine.provider_id: machine for machine in table.machines.values()}
    claims, unroutable = _claims(nodes, table, machines, ranges)
    _resolve_claims(claims)
    granted = [claim for claim in claims if not claim.problem]
    wrong = _contested_routes(granted, table) - {*disputed}
    wrong |= _stale_routes(claims, table, ranges, confirmed((*nodes, *former), table))
    stale = tuple(route for route in table.routes if route in wrong)
    trusted = table.complete and (not mass_deletion_breaker or _most_are_seen(nodes, machines))
    deletions, held_back = (stale, ()) if trusted else ((), stale)
    staying = {canonical(route.destination): route for route in table.routes if route not in deletions}
    specs = tuple(_spec_of(claim, staying.get(claim.destination), table) for claim in claims)
    outside: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for claim in claims:
        if claim.outside:
            outside[claim.node.name] += (claim.destination,)
    return RoutePlan(specs, deletions, held_back, outside, unroutable, bare)


def confirmed(nodes: Iterable[RouteNode], table: RouteTable) -> set[str]:
    """Provider IDs of the machines that are these Nodes' by the cloud's word, not only by the Nodes'."""
    machines = {machine.provider_id: machine for machine in table.machines.values()}
    return {
        node.provider_id
        for node in nodes
        if (machine := machines.get(node.provider_id)) and machine.may_be(node.name)
    }


@dataclass(slots=True)
class _Claim:
    """A Node's Pod CIDR: ``outside`` the Pod ranges, with a ``present`` route, or with a ``problem``."""

    node: RouteNode
    destination: str
    cidr: Cidr
    machine: Machine | None
    present: bool
    outside: bool
    problem: str = ""

    @property
    def is_confirmed(self) -> bool:
        return self.machine is not None and self.machine.may_be(self.node.name)

    @property
    def rank(self) -> tuple[object, ...]:
        return not self.present, not self.is_confirmed, self.node.created, self.node.name

    @property
    def route(self) -> Route | None:
        """The route, if the Node itself has the address that it would lead to."""
        address = self.machine.address if self.machine else ""
        return Route(self.destination, address) if address in self.node.internal_ips else None


def _claims(
    nodes: Sequence[RouteNode], table: RouteTable, machines: Mapping[str, Machine], ranges: Sequence[Cidr]
) -> tuple[list[_Claim], dict[str, tuple[str, ...]]]:
    """What Nodes claim, in their order; and by Node, what no network can route."""
    there = {(canonical(route.destination), route.gateway) for route in table.routes}
    claims: list[_Claim] = []
    unroutable: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for node in nodes:
        machine = machines.get(node.provider_id)
        for text in dict.fromkeys(map(canonical, node.pod_cidrs)):
            cidr = parse_network(text)
            if cidr is None or cidr.version not in table.families:
                unroutable[node.name] += (text,)
                continue
            present = machine is not None and (text, machine.address) in there
            outside = not any(_inside(cidr, whole) for whole in ranges)
            claims.append(_Claim(node, text, cidr, machine, present, outside))
    return claims, unroutable


def _resolve_claims(claims: Sequence[_Claim]) -> None:
    """Write down why some claims are not granted."""
    holders: dict[str, str] = {}
    # What is granted does not overlap, so what overlaps is beside it in the order of addresses.
    granted: dict[int, tuple[list[int], list[_Claim]]] = {4: ([], []), 6: ([], [])}
    for claim in sorted(claims, key=lambda claim: claim.rank):
        name, cidr = claim.node.name, claim.cidr
        claim.problem = _own_problem(claim)
        if claim.problem:
            continue
        holder = holders.setdefault(claim.node.provider_id, name)
        if holder != name and not claim.present:
            claim.problem = f"node {holder} has the same provider ID"
            continue
        starts, holding = granted[cidr.version]
        place = bisect(starts, int(cidr.network_address))
        beside = holding[max(0, place - 1) : place + 1]
        other = next((one for one in beside if one.cidr.overlaps(cidr)), None)
        if other is not None:
            same = "the same" if other.cidr == cidr else "an overlapping"
            claim.problem = f"node {other.node.name} has {same} pod CIDR" + (
                "" if other.cidr == cidr else f", {other.destination}"
            )
            continue
        starts.insert(place, int(cidr.network_address))
        holding.insert(place, claim)


def _own_problem(claim: _Claim) -> str:
    """Why a claim is not granted, whatever others claim."""
    if claim.destination in _DEFAULT_ROUTES:
        return "this CIDR is the default route of the network, and not a pod CIDR"
    if claim.machine is None:
        return "the machine of the node is not in the network"
    if claim.present:
        return ""
    if claim.outside:
        return "this pod CIDR is outside --cluster-cidr and --additional-route-cidrs"
    if not claim.is_confirmed:
        machine = claim.machine
        return (
            f"the node has the provider ID of machine {machine.name}, but this machine belongs to the "
            f"node named {machine.node}"
        )
    return ""


def canonical(text: str) -> str:
    """A CIDR in canonical form; other texts are returned unchanged."""
    cidr = parse_network(text)
    return text if cidr is None else str(cidr)


def _identified(nodes: Sequence[RouteNode], table: RouteTable) -> list[RouteNode]:
    """The Nodes whose machine is known: by provider ID, else by name, if one machine alone has it."""
    names = Counter(machine.name for machine in table.machines.values())
    by_name = {machine.name: machine for machine in table.machines.values() if names[machine.name] == 1}
    known = [node for node in nodes if node.provider_id]
    taken = confirmed(known, table)
    for node in nodes:
        machine = by_name.get(node.name)
        if node.provider_id or machine is None or not machine.may_be(node.name):
            continue
        if machine.provider_id not in taken:
            known.append(replace(node, provider_id=machine.provider_id))
    return known


def _most_are_seen(nodes: Sequence[RouteNode], machines: Collection[str]) -> bool:
    """Whether so few Nodes lack their machine in the network that this may be true."""
    missing = sum(node.provider_id not in machines for node in nodes)
    return missing < len(nodes) and (missing <= 2 or missing <= len(nodes) / 2)


def _spec_of(claim: _Claim, existing: Route | None, table: RouteTable) -> RouteSpec:
    name, destination, machine = claim.node.name, claim.destination, claim.machine
    if claim.problem or machine is None:
        return RouteSpec(name, destination, problem=claim.problem)
    if claim.present:
        return RouteSpec(name, destination, Route(destination, machine.address), present=True)
    if claim.route is None:
        problem = f"the machine's address in the network, {machine.address}, isn't an InternalIP of the node"
        return RouteSpec(name, destination, problem=problem)
    if existing is None:
        return RouteSpec(name, destination, claim.route)
    other = table.machines.get(existing.gateway)
    owner = f"machine {other.name}, which doesn't belong to this node" if other else "no machine"
    problem = (
        f"the network already routes this pod CIDR to {existing.gateway}, {owner}. If the existing route "
        "is wrong, delete the route"
    )
    return RouteSpec(name, destination, problem=problem)


def _bare(nodes: Sequence[RouteNode], table: RouteTable) -> tuple[str, ...]:
    machines = (table.machines.get(route.gateway) for route in table.routes)
    reached = {machine.provider_id for machine in machines if machine}
    return tuple(node.name for node in nodes if not node.pod_cidrs and node.provider_id in reached)


def _contested_routes(granted: Sequence[_Claim], table: RouteTable) -> set[Route]:
    """Routes to exactly a Node's Pod CIDR that lead elsewhere, where the right one can be made."""
    right = {claim.destination: claim.route for claim in granted if not claim.present}
    return {route for route in table.routes if right.get(canonical(route.destination)) is not None}


def _stale_routes(
    claims: Sequence[_Claim], table: RouteTable, ranges: Sequence[Cidr], ours: Collection[str]
) -> set[Route]:
    """Routes inside the ranges of Pods that once were a Node's."""
    claimed = {(claim.node.provider_id, claim.destination) for claim in claims}
    granted = [claim.cidr for claim in claims if not claim.problem]
    of_the_gone = {claim.destination for claim in claims if claim.machine is None}

    def is_stale(route: Route) -> bool:
        machine, destination = table.machines.get(route.gateway), canonical(route.destination)
        if machine is None:
            return destination in of_the_gone or _made_for_pods(route, granted)
        return machine.provider_id in ours and (machine.provider_id, destination) not in claimed

    return {route for route in table.routes if is_responsible(route.destination, ranges) and is_stale(route)}


def _made_for_pods(route: Route, cidrs: Sequence[Cidr]) -> bool:
    destination = parse_network(route.destination)
    if destination is None:
        return False
    same = [cidr for cidr in cidrs if cidr.version == destination.version]
    return any(cidr.prefixlen == destination.prefixlen or cidr.overlaps(destination) for cidr in same)


def _inside(cidr: Cidr, whole: Cidr) -> bool:
    return cidr.version == whole.version and cidr.network_address in whole and cidr.broadcast_address in whole
