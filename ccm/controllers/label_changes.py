"""Which labels a Node gets. Pure: every function returns the labels to set, none if all is well."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ccm.cloud import Instance
from ccm.controllers.names import INSTANCE_TYPE, LABEL_PAIRS, REGION, RESERVED_LABEL, ZONE


@dataclass(frozen=True, slots=True)
class LabelChanges:
    """What to set, and which labels of the cloud were left out and why."""

    set: Mapping[str, str]
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])


def topology_labels(instance: Instance) -> dict[str, str]:
    """Type, zone and region under both of their names; what the cloud leaves empty is left out."""
    values = {INSTANCE_TYPE: instance.type, ZONE: instance.zone, REGION: instance.region}
    values |= {older: values[name] for older, name in LABEL_PAIRS}
    return {key: value for key, value in values.items() if value}


def labels_for(
    instance: Instance, present: Mapping[str, str], copied: Mapping[str, str] | None = None
) -> LabelChanges:
    """Choose labels; ``present`` are the Node's, ``copied`` those from the cloud (:func:`copied_labels`)."""
    ours: Mapping[str, str] = copied or {}
    wanted = topology_labels(instance)
    skipped: dict[str, str] = {}
    for key, value in instance.labels.items():
        if RESERVED_LABEL.search(key):
            skipped[key] = "the domain of this label is reserved for Kubernetes"
        elif present.get(key, value) not in (value, ours.get(key)):
            skipped[key] = f"the Node already has this label with the value {present[key]!r}"
        else:
            wanted[key] = value
    return LabelChanges({key: value for key, value in wanted.items() if present.get(key) != value}, skipped)


def followed(instance: Instance) -> Instance:
    """The machine with those labels only that are kept true after a Node's initialization."""
    labels = {key: value for key, value in instance.labels.items() if key in instance.followed_labels}
    return replace(instance, type="", zone="", region="", labels=labels)


def copied_labels(instance: Instance, present: Mapping[str, str]) -> dict[str, str]:
    """The cloud's own labels that a Node has: if they change in the cloud, they may change on the Node."""
    return {key: value for key, value in instance.labels.items() if present.get(key) == value}


def promoted_labels(present: Mapping[str, str]) -> dict[str, str]:
    """Labels under their present name that lack or contradict the same label under its older name."""
    return {
        new: present[old] for old, new in LABEL_PAIRS if old in present and present.get(new) != present[old]
    }
