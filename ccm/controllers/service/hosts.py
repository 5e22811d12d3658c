"""Which Nodes belong behind a load balancer. Pure.

The set is stable: a Node that is not Ready stays in it, because the load balancer's own health check is
quicker than we are, and a control plane that loses sight of all Nodes must not empty all load balancers. What
leaves is what will not come back: Nodes that are being deleted, or drained to be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ccm.controllers.names import AUTOSCALER_TAINT, EXCLUDE_FROM_LOAD_BALANCERS
from ccm.go import FALSE
from ccm.kube.objects import Node, NodeAddress

# Set by what is about to remove the machine: cluster autoscaler, Karpenter.
LEAVING_TAINTS = frozenset({AUTOSCALER_TAINT, "karpenter.sh/disrupted"})

# Name, provider ID, labels, addresses; the last two are the Node's own objects, so this takes no memory.
Host = tuple[str, str, Mapping[str, str], tuple[NodeAddress, ...]]


def is_included(node: Node) -> bool:
    """Whether the Node's owner lets it be behind load balancers; a label that makes no sense excludes it."""
    value = node.metadata.labels.get(EXCLUDE_FROM_LOAD_BALANCERS)
    return value is None or value in FALSE


def is_leaving(node: Node) -> bool:
    """Whether the Node will be gone soon."""
    return node.metadata.deletion_timestamp is not None or any(
        taint.key in LEAVING_TAINTS for taint in node.spec.taints
    )


def host_of(node: Node | None) -> Host | None:
    """What load balancers need to know of a Node; None = it is not behind them.

    Addresses count as soon as its machine is known: before that, it can't be a target.
    """
    if node is None or not is_included(node) or is_leaving(node):
        return None
    addresses = node.status.addresses if node.spec.provider_id else ()
    return node.metadata.name, node.spec.provider_id, node.metadata.labels, addresses


class Hosts:
    """All hosts as they are now: one tuple for everybody who remembers it, made anew only after a change."""

    def __init__(self) -> None:
        self._by_name: dict[str, Host] = {}
        self._all: tuple[Host, ...] | None = ()

    @property
    def all(self) -> tuple[Host, ...]:
        """By name."""
        if self._all is None:
            self._all = tuple(self._by_name[name] for name in sorted(self._by_name))
        return self._all

    def see(self, name: str, node: Node | None) -> bool:
        """Note a Node as it is now, None = it is gone; whether that makes a difference to load balancers."""
        host = host_of(node)
        if host == self._by_name.get(name):
            return False
        if host is None:
            del self._by_name[name]
        else:
            self._by_name[name] = host
        self._all = None
        return True


def hosts_among(nodes: Iterable[Node]) -> list[Node]:
    """The Nodes that belong behind load balancers, by name."""
    chosen = [node for node in nodes if host_of(node) is not None]
    return sorted(chosen, key=lambda node: node.metadata.name)


def names_for_people(nodes: Iterable[Node]) -> str:
    """Names for a message, as upstream writes them: at most twenty, then how many more."""
    names = [node.metadata.name for node in nodes]
    shown = " ".join(names[:20])
    return f"{shown} <{len(names) - 20} more>" if len(names) > 20 else shown
