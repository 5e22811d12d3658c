"""Plans which routes to create and which routes to delete.

A Node's route has the Node's Pod CIDR as destination, and the address of its machine as gateway. The provider
ID identifies the machine. For a Node without a provider ID, the name identifies the machine.

A kubelet can register a Node with any unused name, any provider ID and any Pod CIDR, because NodeRestriction
checks only labels, taints and configSource. So this module treats the provider ID and the Pod CIDR as a
claim. A claim is granted if its route exists. Otherwise, a claim is granted if

- the CIDR is inside the ranges of Pod CIDRs,
- according to the cloud, the machine may belong to this Node (:attr:`~ccm.cloud.Machine.node`), and
- no granted claim of another Node uses this machine or overlaps this CIDR.

If claims conflict, claims with an existing route have priority, then claims with a machine that the cloud
confirms, then older Nodes. Only the claims with lower priority get a problem.

The plan deletes only routes inside the ranges of Pod CIDRs:

- a route whose destination is a granted Pod CIDR, but whose gateway is wrong, if the right route can replace
  it. A network has one route for each destination, so a wrong gateway makes these Pods unreachable. If a
  replaced route reappears, it stays, because another client needs it, for example another cluster with the
  same Pod CIDRs. The default route stays too, because it belongs to no Node;
- a route to a machine of this cluster that no Node with this machine claims. The cloud must confirm that the
  machine belongs to a Node, or to one deleted since the controller started;
- a route for Pods without an existing gateway. Such a route has the size of a granted CIDR, or overlaps one,
  or is the route of a Node whose machine is gone.

Other routes to machines that never were Nodes stay. While the machines of most Nodes are missing, nothing is
deleted, because the list is probably wrong. The flag of the mass deletion breaker disables this check. If the
cloud's own data shows that the list is incomplete, nothing is deleted either.
"""

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network

from ccm.cloud import Machine, Route, RouteTable
from ccm.ip import parse_network

Cidr = IPv4Network | IPv6Network
# Hetzner also accepts this destination. Such a route carries the traffic of all servers to the Internet.
_DEFAULT_ROUTES = frozenset({"0.0.0.0/0", "::/0"})


@dataclass(frozen=True, slots=True)
class RouteNode:
    """A Node's data for routes. ``provider_id`` is empty until the Node is initialized.

    As with the official CCM, the gateway of a new route must be in ``internal_ips``. ``created`` is in
    seconds since 1970.
    """

    name: str
    provider_id: str
    pod_cidrs: tuple[str, ...]
    internal_ips: tuple[str, ...]
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """A route that a Node needs, or the ``problem`` that prevents it. ``present``: the route exists."""

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
    # by Node, its CIDRs outside the ranges of Pod CIDRs
    outside: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    # by Node, its CIDRs of an address family that the network can't route
    unroutable: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    # Nodes without a CIDR whose machine has a route of an earlier Node
    bare: tuple[str, ...] = ()

    @property
    def creations(self) -> list[RouteSpec]:
        """The routes to create."""
        return [
            route_spec for route_spec in self.specs if route_spec.route is not None and not route_spec.present
        ]

    @property
    def changes(self) -> bool:
        """Whether the plan has changes, including withheld deletions."""
        return bool(self.deletions or self.held_back or self.creations)

    @property
    def problems(self) -> bool:
        """Whether a problem prevents any route."""
        return any(route_spec.problem for route_spec in self.specs)


def is_responsible(destination: str, cluster: Sequence[Cidr]) -> bool:
    """Whether the first or last address of a route's destination is in the cluster's CIDRs."""
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
    """Compare the needed routes with the existing routes.

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
    """Provider IDs of these Nodes' machines, as far as the cloud confirms that the machines are theirs."""
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
        """The route, if the Node has the address of the gateway."""
        address = self.machine.address if self.machine else ""
        return Route(self.destination, address) if address in self.node.internal_ips else None


def _claims(
    nodes: Sequence[RouteNode], table: RouteTable, machines: Mapping[str, Machine], ranges: Sequence[Cidr]
) -> tuple[list[_Claim], dict[str, tuple[str, ...]]]:
    """The claims in the order of the Nodes, and by Node, the CIDRs that the network can't route."""
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
    """Set the problem of each claim that isn't granted."""
    holders: dict[str, str] = {}
    # Granted CIDRs don't overlap, so only neighbors in the order of addresses can overlap a claim.
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
    """Why a claim isn't granted, independent of other claims; empty = no reason."""
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
    """The Nodes with a known machine: by provider ID, or else by a name that only one machine has."""
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
    """Whether so few Nodes lack a machine in the network that the list of machines is plausible."""
    missing = sum(node.provider_id not in machines for node in nodes)
    return missing < len(nodes) and (missing <= 2 or missing <= len(nodes) / 2)


def _spec_of(claim: _Claim, existing: Route | None, table: RouteTable) -> RouteSpec:
    name, destination, machine = claim.node.name, claim.destination, claim.machine
    if claim.problem or machine is None:
        return RouteSpec(name, destination, problem=claim.problem)
    if claim.present:
        return RouteSpec(name, destination, Route(destination, machine.address), present=True)
    if claim.route is None:
        problem = f"the machine has the address {machine.address} in the network, but the node has no "
        problem += "InternalIP with this address"
        return RouteSpec(name, destination, problem=problem)
    if existing is None:
        return RouteSpec(name, destination, claim.route)
    other = table.machines.get(existing.gateway)
    owner = f"machine {other.name}, not to the machine of this node" if other else "no machine"
    problem = (
        f"the network already routes this pod CIDR to {existing.gateway}. This address belongs to {owner}. "
        "If the existing route is wrong, delete the route"
    )
    return RouteSpec(name, destination, problem=problem)


def _bare(nodes: Sequence[RouteNode], table: RouteTable) -> tuple[str, ...]:
    machines = (table.machines.get(route.gateway) for route in table.routes)
    reached = {machine.provider_id for machine in machines if machine}
    return tuple(node.name for node in nodes if not node.pod_cidrs and node.provider_id in reached)


def _contested_routes(granted: Sequence[_Claim], table: RouteTable) -> set[Route]:
    """Routes for a granted Pod CIDR with a wrong gateway, if the right route can replace them."""
    right = {claim.destination: claim.route for claim in granted if not claim.present}
    return {route for route in table.routes if right.get(canonical(route.destination)) is not None}


def _stale_routes(
    claims: Sequence[_Claim], table: RouteTable, ranges: Sequence[Cidr], ours: Collection[str]
) -> set[Route]:
    """Routes inside the ranges of Pod CIDRs that no Node needs any more."""
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
