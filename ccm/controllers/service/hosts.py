"""Chooses the Nodes that can be targets of load balancers.

A Node that isn't Ready stays in the set: the health check of the load balancer is faster than this
controller, and a control plane that loses contact with all Nodes must not remove all targets. Only Nodes
under deletion, or drained before their deletion, leave the set.
"""

from collections.abc import Callable, Iterable, Mapping

from ccm.controllers.names import AUTOSCALER_TAINT, EXCLUDE_FROM_LOAD_BALANCERS
from ccm.go import FALSE
from ccm.kube.backoff import KeyedBuckets
from ccm.kube.objects import Node, NodeAddress

# Set before the removal of a machine by the cluster autoscaler and by Karpenter.
LEAVING_TAINTS = frozenset({AUTOSCALER_TAINT, "karpenter.sh/disrupted"})

NO_NODES = "There are no available nodes for LoadBalancer"
CHANGES_AT_ONCE = 10  # of one Node, without delay
CHANGE_PERIOD = 60.0  # seconds
# Name, provider ID, labels, addresses. Labels and addresses are references to the Node's own objects.
Host = tuple[str, str, Mapping[str, str], tuple[NodeAddress, ...]]


def is_included(node: Node) -> bool:
    """Whether the Node has no label that excludes it from load balancers, or the label is false."""
    value = node.metadata.labels.get(EXCLUDE_FROM_LOAD_BALANCERS)
    return value is None or value in FALSE


def is_leaving(node: Node) -> bool:
    """Whether the Node will be deleted soon."""
    return node.metadata.deletion_timestamp is not None or any(
        taint.key in LEAVING_TAINTS for taint in node.spec.taints
    )


def host_of(node: Node | None) -> Host | None:
    """The fields of a Node for load balancers; None if it's excluded, or if its machine is unknown."""
    if node is None or not is_included(node) or is_leaving(node):
        return None
    addresses = node.status.addresses if node.spec.provider_id else ()
    return node.metadata.name, node.spec.provider_id, node.metadata.labels, addresses


class Hosts:
    """All current hosts: one shared tuple, replaced only after a change.

    A kubelet writes the labels and addresses of its Node, and each change syncs all load balancers, which may
    remove and add targets. So if a Node changes often, the sync is delayed. If a Node is added, deleted or
    drained, the sync starts immediately.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, Host] = {}
        self._all: tuple[Host, ...] | None = ()
        self._changes = KeyedBuckets(1 / CHANGE_PERIOD, CHANGES_AT_ONCE)
        self._late: set[str] = set()

    @property
    def all(self) -> tuple[Host, ...]:
        """All hosts, ordered by name."""
        if self._all is None:
            self._all = tuple(self._by_name[name] for name in sorted(self._by_name))
        return self._all

    def see(self, name: str, node: Node | None, now: float) -> float | None:
        """Record a Node (None = deleted). Returns the seconds until the sync, or None without a change."""
        host, known = host_of(node), self._by_name.get(name)
        if node is None:
            self._changes.forget(name)
        self._late.discard(name)
        if host == known:
            return None
        if host is not None and known is not None and not self._changes.take(name, now):
            self._late.add(name)
            return CHANGE_PERIOD
        self._note(name, host)
        return 0.0

    def catch_up(self, node: Callable[[str], Node | None]) -> None:
        """Record the current state of Nodes whose last changes were delayed; ``node`` returns a Node."""
        for name in self._late:
            self._note(name, host_of(node(name)))
        self._late.clear()

    def _note(self, name: str, host: Host | None) -> None:
        if host is None:
            self._by_name.pop(name, None)
        else:
            self._by_name[name] = host
        self._all = None


def hosts_among(nodes: Iterable[Node]) -> list[Node]:
    """The Nodes that can be targets of load balancers, ordered by name."""
    chosen = [node for node in nodes if host_of(node) is not None]
    return sorted(chosen, key=lambda node: node.metadata.name)


def why_none(nodes: Iterable[Node]) -> str:
    """Why no Node can be a target: upstream's message, and the names of excluded Nodes."""
    excluded = [node for node in nodes if not is_included(node)]
    if not excluded:
        return NO_NODES
    return f"{NO_NODES}: the label {EXCLUDE_FROM_LOAD_BALANCERS} excludes {names_for_people(excluded)}"


def names_for_people(nodes: Iterable[Node]) -> str:
    """Names for a message in upstream's format: at most twenty names, and the number of others."""
    names = [node.metadata.name for node in nodes]
    shown = " ".join(names[:20])
    return f"{shown} <{len(names) - 20} more>" if len(names) > 20 else shown
