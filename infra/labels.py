"""Labels that everything of an environment carries in the cloud, to be told from everything else."""

from __future__ import annotations

from collections.abc import Mapping

CLUSTER = "cluster"
MANAGED_BY = "managed-by"
MANAGER = "ccm-from-scratch"
LONGEST_VALUE = 63


def cluster_labels(cluster_name: str, stack: str, more: Mapping[str, str]) -> dict[str, str]:
    """The person's own labels, and ours, which win."""
    return {**more, CLUSTER: cluster_name, MANAGED_BY: MANAGER, "stack": label_value(stack)}


def label_value(name: str) -> str:
    """The name of a stack as far as a label can hold it: 63 characters that end in a letter or digit."""
    return name.strip("-_.")[:LONGEST_VALUE].rstrip("-_.")
