"""Instances: the machines behind the Nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ccm.cloud.errors import CloudError, Notice

HOSTNAME = "Hostname"
INTERNAL_IP = "InternalIP"
EXTERNAL_IP = "ExternalIP"


@dataclass(frozen=True, slots=True)
class Address:
    """One address of a node, as Kubernetes types it (``InternalIP``, ``ExternalIP``, ``Hostname``, …)."""

    type: str
    address: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """What a cloud gets to see of a Node.

    Attributes:
        provider_id: ``spec.providerID``; empty until the Node is initialized.
        uid: The Node object's identity.
        addresses: The addresses in the Node's status now (the kubelet's or ours).
        asks_power: Whether the caller wants to know if the machine is off. If not, a cloud that would need a
            request of its own for that leaves :attr:`Instance.shut_down` False.
    """

    name: str
    provider_id: str = ""
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    addresses: tuple[Address, ...] = ()
    asks_power: bool = True


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine, as the cloud knows it.

    Attributes:
        provider_id: ``<scheme>://<id>``, stable for the machine's life.
        type: Value of the instance-type labels; empty = no label. ``zone`` and ``region`` likewise.
        addresses: Every address, in the order of the status.
        labels: More labels for the Node, given when it is initialized.
        followed_labels: Which of these are kept true afterwards, unless the Node has values of its own.
        shut_down: The machine exists and is known to be powered off.
        notices: What its owner should know.
    """

    provider_id: str
    name: str
    type: str = ""
    zone: str = ""
    region: str = ""
    addresses: tuple[Address, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    followed_labels: frozenset[str] = frozenset()
    shut_down: bool = False
    notices: tuple[Notice, ...] = ()


class Instances(Protocol):
    """Finds the machines of Nodes.

    A Node is found by its provider ID if it has one, otherwise by its name. A provider ID of another scheme
    is :class:`~ccm.cloud.errors.NotOurs`: such a Node is never touched.
    """

    def owns(self, provider_id: str, /) -> bool:
        """Whether a provider ID has this cloud's scheme. An empty one has not."""
        ...

    async def get(self, node: NodeView, *, accepted_age: float) -> Instance:
        """Find one Node's machine.

        Args:
            node: The Node.
            accepted_age: How old the answer may be, in seconds. 0 asks the cloud about exactly this
                machine, which is what has to be done before anything is deleted.

        Raises:
            InstanceNotFound: The cloud answered completely, and the machine does not exist.
            NotOurs: The Node is another cloud's.
            CloudError: Not known. Nothing may be concluded.
        """
        ...

    async def list(
        self, nodes: Sequence[NodeView], *, accepted_age: float
    ) -> Mapping[str, Instance | CloudError]:
        """Find the machines of many Nodes with as few calls as possible.

        Returns for every Node's name its machine, or the error that :meth:`get` would raise for it. Raises
        CloudError if nothing could be found out at all. ``accepted_age`` is in seconds.
        """
        ...
