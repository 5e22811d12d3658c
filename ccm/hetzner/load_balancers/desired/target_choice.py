"""Chooses the targets."""

from collections.abc import Callable, Collection
from ipaddress import IPv4Address, IPv4Network

from ccm.cloud import AccessDenied, Notice
from ccm.hetzner.api.models import LoadBalancerType, Server
from ccm.hetzner.load_balancers.desired.desired_state import DesiredState
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec import LoadBalancerSpec
from ccm.hetzner.load_balancers.targets import Candidates, Identity, Target
from ccm.hetzner.load_balancers.truncation import enumerated

# The possible ranges of Hetzner's networks.
_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
# The reasons of Events (from the official CCM, if possible) and their meaning.
_WHY = {
    "UnknownProviderIDPrefix": "their provider IDs aren't Hetzner's",
    "ServerNotFound": "their servers don't exist in this project",
    "PublicIPv4Missing": "their servers have no public IPv4 address. Add public IPv4 addresses to the "
    "servers, or use private addresses (load-balancer.hetzner.cloud/use-private-ip)",
    "PublicInterfaceDisabled": "the load balancer has no public interface, so the load balancer can't "
    "reach the public addresses of these nodes. Set load-balancer.hetzner.cloud/use-private-ip: 'true'. On "
    "dedicated servers, also set the kubelet's flag --node-ip to the private address",
    "ServerNotInNetwork": "the servers of the nodes are not in the private network",
    "ServerOfAnotherNode": "the servers' names differ from the nodes' names, or the nodes' addresses belong "
    "to other servers. The CCM doesn't trust a node's provider ID alone. Set the server's label "
    "ccm-from-scratch/node to the node's name, or set CCM_NODE_NAME_CHECK=false",
    "InternalIPNotConfigured": "the nodes have no address that a load balancer can use",
    "RobotNotEnabled": "the nodes are dedicated servers, and ROBOT_ENABLED is not set",
    "MaxTargetsReached": "the load balancer's type supports no more targets. Choose a larger type with "
    "load-balancer.hetzner.cloud/type, or select fewer nodes with load-balancer.hetzner.cloud/node-selector",
}


def choose_targets(spec: LoadBalancerSpec, observed: ObservedState, limits: LoadBalancerType) -> DesiredState:
    """Choose targets; raises AccessDenied for a new load balancer if the project has none of the servers."""
    numbers = {target.server for target in observed.candidates.by_node.values() if target.server}
    if observed.balancer is None and numbers and numbers.isdisjoint(observed.servers):
        text = (
            f"the cluster has {observed.nodes} nodes, but none of their servers is in this project. The "
            "token probably belongs to another project, so no load balancer is created"
        )
        raise AccessDenied(text, notices=(Notice("WrongProject", text),))
    present, actual = observed.present, observed.balancer.targets if observed.balancer else ()
    identities = frozenset(one.identity for one in present)
    foreign = identities - observed.ours if spec.preserve_foreign else frozenset[Identity]()
    # Label selectors and foreign targets stay, and also count towards the limit.
    room = limits.max_targets - (len(actual) - len(identities)) - len(foreign)
    targets, notices = settle(
        observed.candidates,
        present,
        observed.servers.get,
        network=observed.network,
        limit=max(0, room),
        public=_is_public(spec, observed),
    )
    # Keep targets, so that a wrong prefix, selector, network or list of Nodes doesn't stop all traffic.
    mine = tuple(sorted(one for one in present if one.identity not in foreign))
    keeps = not targets and bool(mine) and not spec.service.hosts_excluded
    if observed.nodes and not observed.selected:
        outcome = "keeps its targets" if keeps else "has no targets"
        text = f"selects none of the {observed.nodes} nodes, so the load balancer {outcome}"
        notices.append(Notice("NodeSelectorMatchesNothing", f"{PREFIX}node-selector {text}"))
    if not observed.is_owner:
        return DesiredState("", {}, notices=tuple(notices))
    if keeps:
        targets = mine
        text = (
            f"none of the cluster's {observed.nodes} nodes can be a target, which is probably a mistake. So "
            f"the load balancer keeps its {len(mine)} targets. Check the prefix of the nodes' provider IDs "
            "(--cloud-provider), HCLOUD_NETWORK, the token's project, and the node-selector"
        )
        notices.append(Notice("LoadBalancerTargetsKept", text))
    reachable = frozenset(number for number, server in observed.servers.items() if server.public_ipv4)
    return DesiredState(
        "",
        {},
        targets=targets,
        foreign_targets=foreign,
        reachable=reachable,
        keeps_targets=keeps,
        notices=tuple(notices),
    )


def _is_public(spec: LoadBalancerSpec, observed: ObservedState) -> bool:
    """Whether the load balancer has a public interface now or after this plan."""
    if observed.balancer is None:
        return spec.public is not False
    opens = "public" in observed.ownership.settings if spec.public is None else spec.public
    return observed.balancer.public_net.enabled or (observed.is_owner and opens)


def settle(
    wanted: Candidates,
    present: Collection[Target],
    server: Callable[[int], Server | None],
    *,
    network: int | None,
    limit: int,
    public: bool = True,
) -> tuple[tuple[Target, ...], list[Notice]]:
    """Choose the possible targets, at most ``limit``.

    Current targets have priority, so that targets don't change at the limit of the type. Others are chosen by
    name, so that the choice is stable. ``server`` returns a server by ID; None = it doesn't exist.
    ``network`` is the private network, if any. Without a ``public`` interface, the load balancer can't reach
    public addresses.
    """
    left_out = {reason: list(names) for reason, names in wanted.left_out.items()}
    possible: list[tuple[bool, str, Target]] = []
    identities = {one.identity for one in present}
    for name, target in wanted.by_node.items():
        why = None if target in present else _obstacle(target, server, network, public=public)
        if why is None:
            possible.append((target.identity not in identities, name, target))
        else:
            left_out.setdefault(why, []).append(name)
    possible.sort(key=lambda candidate: candidate[:2])
    too_many = sorted(name for _, name, _ in possible[limit:])
    if too_many:
        left_out["MaxTargetsReached"] = too_many
    chosen = {target.identity: target for _, _, target in possible[:limit]}
    without = "These nodes get no traffic from the load balancer, because"
    notices = [
        Notice(reason, f"{without} {_WHY[reason]}: {enumerated(names)}") for reason, names in left_out.items()
    ]
    idle = {name for names in left_out.values() for name in names}
    if public_ones := [name for name in wanted.public if name not in idle]:
        text = (
            "These nodes get traffic through their public addresses, because the nodes have no internal "
            f"IPv4 address: {enumerated(public_ones)}"
        )
        notices.append(Notice("InternalIPNotConfigured", text))
    return tuple(sorted(chosen.values())), notices


def _obstacle(
    target: Target, find: Callable[[int], Server | None], network: int | None, *, public: bool
) -> str | None:
    if not target.server:
        return (
            None
            if public or any(IPv4Address(target.ip) in one for one in _PRIVATE)
            else "PublicInterfaceDisabled"
        )
    server = find(target.server)
    if server is None:
        return "ServerNotFound"
    if target.private:
        return None if server.private_ip(network) else "ServerNotInNetwork"
    if not public:
        return "PublicInterfaceDisabled"
    return None if server.public_ipv4 else "PublicIPv4Missing"
