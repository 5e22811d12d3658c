"""Which Nodes belong behind a load balancer. Pure.

The set is stable: a Node that is not Ready stays in it, because the load balancer's own health check is
quicker than we are, and a control plane that loses sight of all Nodes must not empty all load balancers. What
leaves is what will not come back: Nodes that are being deleted, or drained to be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from ccm.controllers.names import AUTOSCALER_TAINT, EXCLUDE_FROM_LOAD_BALANCERS
from ccm.kube.objects import Node

# Set by what is about to remove the machine: cluster autoscaler, Karpenter.
LEAVING_TAINTS = frozenset({AUTOSCALER_TAINT, "karpenter.sh/disrupted"})
# What Go's strconv.ParseBool takes for false; everything else, also nonsense, excludes.
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})

Host = tuple[str, str, frozenset[tuple[str, str]]]


def is_included(node: Node) -> bool:
    """Whether the Node's owner lets it be behind load balancers."""
    value = node.metadata.labels.get(EXCLUDE_FROM_LOAD_BALANCERS)
    return value is None or value in _FALSE


def is_leaving(node: Node) -> bool:
    """Whether the Node will be gone soon."""
    return node.metadata.deletion_timestamp is not None or any(
        taint.key in LEAVING_TAINTS for taint in node.spec.taints
    )


def host_of(node: Node | None) -> Host | None:
    """What load balancers need to know of a Node: name, provider ID, labels; None = it is not behind them."""
    if node is None or not is_included(node) or is_leaving(node):
        return None
    return node.metadata.name, node.spec.provider_id, frozenset(node.metadata.labels.items())


def hosts_among(nodes: Iterable[Node]) -> list[Node]:
    """The Nodes that belong behind load balancers, by name."""
    chosen = [node for node in nodes if host_of(node) is not None]
    return sorted(chosen, key=lambda node: node.metadata.name)


def names_for_people(nodes: Iterable[Node], limit: int = 20) -> str:
    """Names for a message, as upstream writes them: at most twenty, then how many more."""
    names = [node.metadata.name for node in nodes]
    shown = " ".join(names[:limit])
    return f"{shown} <{len(names) - limit} more>" if len(names) > limit else shown
