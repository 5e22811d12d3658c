"""Decides which load balancers and certificates a destroy deletes, releases or leaves.

The cloud-controller-manager marks its objects with labels (ccm/hetzner/load_balancers/ownership_labels.py).
This program does not import it; a test compares the names and the labels after a release.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

SERVICE_UID = "hcloud-ccm/service-uid"
OURS = "ccm-from-scratch/"
CLUSTER = OURS + "cluster"
ADOPTED = OURS + "adopted"
FORMER_UID = OURS + "former-service-uid"
BY_LABEL = "by-label"
DEFAULT_TYPE = "lb11"
"""The type of a Service's load balancer if no annotation of the Service sets the type."""
NAMESPACE = OURS + "namespace"
SERVICE = OURS + "service"
PORT = OURS + "port-"
LABEL = OURS + "label-"


class Fate(Enum):
    """What a destroy does with a load balancer."""

    LEAVE = "not ours"
    DELETE = "created by this cluster and used only by this cluster"
    RELEASE = "kept, but the ownership labels of this cluster are removed"
    ASK = "possibly created by this cluster: the operator must decide whether to delete or keep it"


@dataclass(frozen=True)
class Verdict:
    """The decision on a load balancer."""

    fate: Fate
    reason: str = ""  # for a person, as the end of "..., because"
    labels: Mapping[str, str] = field(default_factory=dict)  # all labels that a released one keeps
    services: frozenset[str] = frozenset()  # UIDs of our Services that use one of ours
    keep: str = ""  # arguments of ``hcloud load-balancer`` after which the next destroy leaves it


NOT_OURS = Verdict(Fate.LEAVE)


@dataclass(frozen=True)
class Ownership:
    """What the program knows about the cluster."""

    cluster: str  # its name, CCM_CLUSTER_ID of its cloud-controller-manager
    network_id: int
    service_uids: frozenset[str]  # of its Services with load balancers; empty: the cluster did not answer
    network_stays: bool = False  # whether it is imported, so that load balancers of others may be in it

    def verdict(self, balancer: Mapping[str, Any]) -> Verdict:
        """Decides on one load balancer, as the API returns it.

        It is ours if it is for a Service that the cluster reported, or if it is in our network and has a
        label with the cluster's name. The network or the label alone is not enough: networks are shared, and
        two clusters may have the same name.
        """
        labels = balancer["labels"]
        # this label names the Service of one that was protected when the Service was deleted
        key = SERVICE_UID if labels.get(SERVICE_UID) else FORMER_UID
        leader, marked = labels.get(key, ""), labels.get(CLUSTER, "")
        networks = {private["network"] for private in balancer["private_net"]}
        if not leader or marked not in ("", self.cluster):
            return NOT_OURS
        ports = port_owners(labels)
        users = {leader, *ports.values()}
        own = users if marked and self.network_id in networks else users & self.service_uids
        if own:
            fate, reason = _of_ours(balancer, ports, users - own)
            keep = f"remove-label {balancer['id']} {key}"
            rest = {name: value for name, value in labels.items() if name != FORMER_UID}
            return Verdict(fate, reason, released_labels(rest, own), frozenset(own), keep)
        if self.network_id in networks and not self.network_stays:
            # the commands detach it: its own cluster still knows it, and it loses this network in any case
            keep = f"detach-from-network --network {self.network_id} {balancer['id']}"
            reason = "the load balancer is in the network of this cluster, but has no label of this cluster"
            return Verdict(Fate.ASK, reason, keep=keep)
        if marked and not networks:
            keep = f"remove-label {balancer['id']} {CLUSTER}"
            return Verdict(
                Fate.ASK,
                "the load balancer has the label of this cluster, but isn't in the network of this cluster",
                keep=keep,
            )
        return NOT_OURS

    def certificate_goes(self, certificate: Mapping[str, Any], services: Collection[str]) -> bool:
        """Whether a certificate was requested for our Services and is unused."""
        labels = certificate["labels"]
        requested = certificate["type"] == "managed" and labels.get(CLUSTER) == self.cluster
        return requested and labels.get(SERVICE_UID) in services and not certificate["used_by"]


def _of_ours(
    balancer: Mapping[str, Any], ports: Mapping[int, str], others: Collection[str]
) -> tuple[Fate, str]:
    """Only a load balancer that was created for our Services and is not shared is deleted."""
    if ADOPTED in balancer["labels"]:
        return Fate.RELEASE, "the cluster adopted the load balancer and didn't create it"
    listeners = {service["listen_port"] for service in balancer["services"]}
    if others or (ports and listeners - ports.keys()):
        return Fate.RELEASE, "some Services or listeners that use the load balancer aren't of this cluster"
    return Fate.DELETE, ""


def port_owners(labels: Mapping[str, str]) -> dict[int, str]:
    """The UID of the Service of each listener that has a label, by port."""
    numbers = {key: key.removeprefix(PORT) for key in labels if key.startswith(PORT)}
    return {
        int(number): labels[key]
        for key, number in numbers.items()
        if number.isascii() and number.isdigit() and len(number) <= 5
    }


def released_labels(labels: Mapping[str, str], own: Collection[str]) -> dict[str, str]:
    """The labels after our Services are removed; the next Service becomes the owner, if there is one."""
    ports = {f"{PORT}{port}" for port, uid in port_owners(labels).items() if uid in own}
    left = {key: value for key, value in labels.items() if key not in ports}
    if left.get(SERVICE_UID) not in own:
        return left
    others = sorted(port_owners(left).values())
    if others:
        # the cloud-controller-manager writes that Service's name, which is unknown here
        return {**{key: value for key, value in left.items() if key != SERVICE}, SERVICE_UID: others[0]}
    annotated = {key for key in left if LABEL + hashlib.sha256(key.encode()).hexdigest()[:8] in left}
    # The label that allowed a namespace to adopt it is not ours.
    theirs = {NAMESPACE} if left.get(ADOPTED) == BY_LABEL else set()
    if FORMER_UID in left:
        theirs = {NAMESPACE, SERVICE, CLUSTER, FORMER_UID}
    ours = {SERVICE_UID, *annotated, *(key for key in left if key.startswith(OURS))} - theirs
    return {key: value for key, value in left.items() if key not in ours}
