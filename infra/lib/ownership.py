"""Whose load balancer or certificate it is, and what becomes of it when the environment is destroyed. Pure.

The cloud-controller-manager marks what is its own with labels
(ccm/hetzner/load_balancers/ownership_labels.py). This program imports nothing of it; a test
holds the names, and what a release leaves, equal.
"""

from __future__ import annotations

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
"""Of a load balancer for a Service that says nothing else."""
NAMESPACE = OURS + "namespace"
SERVICE = OURS + "service"
PORT = OURS + "port-"
LABEL = OURS + "label-"


class Fate(Enum):
    """What a destroy does with a load balancer."""

    LEAVE = "not ours"
    DELETE = "made by our cluster, and for it alone"
    RELEASE = "ours no longer: what marks it is removed"
    ASK = "perhaps ours: somebody has to say"


@dataclass(frozen=True)
class Verdict:
    """What becomes of a load balancer.

    Attributes:
        fate: What is done.
        why: For a person, as the end of "..., because".
        labels: All that a released one keeps.
        services: UIDs of our Services that are on one of ours.
        keep: What to type after ``hcloud load-balancer`` so that the next destroy leaves it.
    """

    fate: Fate
    why: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    services: frozenset[str] = frozenset()
    keep: str = ""


NOT_OURS = Verdict(Fate.LEAVE)


@dataclass(frozen=True)
class Ownership:
    """What is known of our cluster.

    Attributes:
        cluster: Its name, which its cloud-controller-manager has as CCM_CLUSTER_ID.
        network_id: Its private network.
        service_uids: Of its Services with load balancers; empty when it could not be asked.
        network_stays: Whether the network was somebody's before, and so have others load balancers in it.
    """

    cluster: str
    network_id: int
    service_uids: frozenset[str]
    network_stays: bool = False

    def verdict(self, balancer: Mapping[str, Any]) -> Verdict:
        """Decides on one load balancer as the API gives it.

        Ours is one for a Service that the cluster told us of, or one in our network that is marked with the
        cluster's name. A single one of these two marks is not enough: names are given twice, and networks
        are shared.
        """
        labels = balancer["labels"]
        # One that was protected when its Service went tells whose it was.
        key = SERVICE_UID if labels.get(SERVICE_UID) else FORMER_UID
        leader, marked = labels.get(key, ""), labels.get(CLUSTER, "")
        networks = {private["network"] for private in balancer["private_net"]}
        if not leader or marked not in ("", self.cluster):
            return NOT_OURS
        ports = port_owners(labels)
        users = {leader, *ports.values()}
        own = users if marked and self.network_id in networks else users & self.service_uids
        if own:
            fate, why = _of_ours(balancer, ports, users - own)
            keep = f"remove-label {balancer['id']} {key}"
            rest = {name: value for name, value in labels.items() if name != FORMER_UID}
            return Verdict(fate, why, released_labels(rest, own), frozenset(own), keep)
        if self.network_id in networks and not self.network_stays:
            # its own cluster goes on knowing it; the network it loses either way
            keep = f"detach-from-network --network {self.network_id} {balancer['id']}"
            why = "it is in this environment's network, and not marked as its cluster's"
            return Verdict(Fate.ASK, why, keep=keep)
        if marked and not networks:
            keep = f"remove-label {balancer['id']} {CLUSTER}"
            return Verdict(Fate.ASK, "it is marked as this cluster's, and not in its network", keep=keep)
        return NOT_OURS

    def certificate_goes(self, certificate: Mapping[str, Any], services: Collection[str]) -> bool:
        """Whether a certificate was requested for our Services, and nothing uses it.

        Args:
            certificate: As the API gives it.
            services: UIDs of Services that are ours for certain.
        """
        labels = certificate["labels"]
        requested = certificate["type"] == "managed" and labels.get(CLUSTER) == self.cluster
        return requested and labels.get(SERVICE_UID) in services and not certificate["used_by"]


def _of_ours(
    balancer: Mapping[str, Any], ports: Mapping[int, str], others: Collection[str]
) -> tuple[Fate, str]:
    """Only what was made for our Services, and serves nobody else, is deleted."""
    if ADOPTED in balancer["labels"]:
        return Fate.RELEASE, "the cluster did not make it, it adopted it"
    listeners = {service["listen_port"] for service in balancer["services"]}
    if others or (ports and listeners - ports.keys()):
        return Fate.RELEASE, "others use it, too"
    return Fate.DELETE, ""


def port_owners(labels: Mapping[str, str]) -> dict[int, str]:
    """Which Service (UID) has which listener, where labels say so."""
    numbers = {key: key.removeprefix(PORT) for key in labels if key.startswith(PORT)}
    return {
        int(number): labels[key]
        for key, number in numbers.items()
        if number.isascii() and number.isdigit() and len(number) <= 5
    }


def released_labels(labels: Mapping[str, str], own: Collection[str]) -> dict[str, str]:
    """What is left of the labels when our Services go; the next Service leads, if there is any.

    Args:
        labels: All of the load balancer.
        own: UIDs of the Services that go.
    """
    ports = {f"{PORT}{port}" for port, uid in port_owners(labels).items() if uid in own}
    left = {key: value for key, value in labels.items() if key not in ports}
    if left.get(SERVICE_UID) not in own:
        return left
    others = sorted(port_owners(left).values())
    if others:
        # that one's name is not known here, and the cloud-controller-manager writes it
        return {**{key: value for key, value in left.items() if key != SERVICE}, SERVICE_UID: others[0]}
    annotated = {key for key in left if LABEL + hashlib.sha256(key.encode()).hexdigest()[:8] in left}
    # The label that allowed a namespace to adopt it is not ours.
    theirs = {NAMESPACE} if left.get(ADOPTED) == BY_LABEL else set()
    if FORMER_UID in left:
        theirs = {NAMESPACE, SERVICE, CLUSTER, FORMER_UID}
    ours = {SERVICE_UID, *annotated, *(key for key in left if key.startswith(OURS))} - theirs
    return {key: value for key, value in left.items() if key not in ours}
