"""Chooses the labels of a Node. All functions are pure, and return the labels to set."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ccm.cloud import Instance
from ccm.controllers.names import INSTANCE_TYPE, LABEL_PAIRS, REGION, RESERVED_LABEL, ZONE


@dataclass(frozen=True, slots=True)
class LabelChanges:
    """The labels to set, and the skipped labels of the cloud with the reasons."""

    set: Mapping[str, str]
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])


def topology_labels(instance: Instance) -> dict[str, str]:
    """The labels for type, zone and region under both of their names, without empty values."""
    values = {INSTANCE_TYPE: instance.type, ZONE: instance.zone, REGION: instance.region}
    values |= {older: values[name] for older, name in LABEL_PAIRS}
    return {key: value for key, value in values.items() if value}


def labels_for(
    instance: Instance, present: Mapping[str, str], copied: Mapping[str, str] | None = None
) -> LabelChanges:
    """Choose labels. ``present``: labels of the Node. ``copied``: the result of :func:`copied_labels`."""
    ours: Mapping[str, str] = copied or {}
    wanted = topology_labels(instance)
    skipped: dict[str, str] = {}
    for key, value in instance.labels.items():
        if RESERVED_LABEL.search(key):
            skipped[key] = "the prefix of this label is reserved for Kubernetes"
        elif present.get(key, value) not in (value, ours.get(key)):
            skipped[key] = f"the Node already has this label with the value {present[key]!r}"
        else:
            wanted[key] = value
    return LabelChanges({key: value for key, value in wanted.items() if present.get(key) != value}, skipped)


def followed(instance: Instance) -> Instance:
    """The machine with only the labels that follow the cloud after a Node's initialization."""
    labels = {key: value for key, value in instance.labels.items() if key in instance.followed_labels}
    return replace(instance, type="", zone="", region="", labels=labels)


def copied_labels(instance: Instance, present: Mapping[str, str]) -> dict[str, str]:
    """The labels that a Node has from the cloud. If they change in the cloud, they may change on the Node."""
    return {key: value for key, value in instance.labels.items() if present.get(key) == value}


def promoted_labels(present: Mapping[str, str]) -> dict[str, str]:
    """The current labels to set, because they are missing or differ from the label with the older name."""
    return {
        new: present[old] for old, new in LABEL_PAIRS if old in present and present.get(new) != present[old]
    }
