"""Labels that identify all objects of an environment in the cloud."""

import re
from collections.abc import Mapping
from typing import Any

CLUSTER = "cluster"
MANAGED_BY = "managed-by"
MANAGER = "ccm-from-scratch"
STACK = "stack"
OURS = (CLUSTER, MANAGED_BY, STACK, "role", "pool", "fallback-for")
"""Keys of labels that only this program sets."""
NAT = "nat"
"""The role of the NAT server. The server's name ends with this role."""
CONTROL_ROLE = {"role": "control"}
"""Labels that a control server has in addition to the labels of its cluster."""
NAT_ROLE = {"role": NAT}
"""Labels that the NAT server has in addition to the labels of its cluster."""
MAX_VALUE_LENGTH = 63
NODE = "ccm-from-scratch/node"
"""If a server and its Node have different names, this label of the server contains the name of the Node. The
cloud-controller-manager reads this label."""
NO_NODE = "not_a_node"
"""The value of the label ``NODE`` for a server without a Node. No Node can have this name."""

_NAME = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_PART = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"{_PART}(\.{_PART})*", re.ASCII)


def cluster_labels(cluster_name: str, stack: str, more: Mapping[str, str]) -> dict[str, str]:
    """The person's own labels, and ours, which win."""
    return {**more, CLUSTER: cluster_name, MANAGED_BY: MANAGER, STACK: label_value(stack)}


def label_value(name: str) -> str:
    """The name of a stack as far as a label can hold it: 63 characters that end in a letter or digit."""
    return name.strip("-_.")[:MAX_VALUE_LENGTH].rstrip("-_.")


def is_label(label: Any, content: Any) -> bool:
    """Whether a key and its value have the syntax of Kubernetes labels, which is Hetzner's, too."""
    if not isinstance(label, str) or not isinstance(content, str):
        return False
    prefix, slash, rest = label.rpartition("/")
    if slash and (not _DOMAIN.fullmatch(prefix) or len(prefix) > 253):
        return False
    return bool(rest and _NAME.fullmatch(rest) and _NAME.fullmatch(content))
