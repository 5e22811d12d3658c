"""Instances: the machines of the Nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ccm.cloud.errors import CloudError, Notice

HOSTNAME = "Hostname"
INTERNAL_IP = "InternalIP"
EXTERNAL_IP = "ExternalIP"


@dataclass(frozen=True, slots=True)
class Address:
    """An address of a Node. The type is one of Kubernetes, for example ``InternalIP`` or ``Hostname``."""

    type: str
    address: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """The fields of a Node that a cloud receives."""

    name: str
    provider_id: str = ""  # ``spec.providerID``; empty until the Node is initialized
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    addresses: tuple[Address, ...] = ()  # of the Node's status
    # If False, a cloud that needs an extra request for it may leave `Instance.shut_down` False.
    asks_power: bool = True


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine in the cloud."""

    provider_id: str  # ``<scheme>://<id>``; never changes
    name: str
    type: str = ""  # the value of the Node's instance-type label; if it is empty, the Node gets no label
    zone: str = ""  # a label like ``type``
    region: str = ""  # a label like ``type``
    addresses: tuple[Address, ...] = ()  # all addresses, in the order of the Node's status
    labels: Mapping[str, str] = field(default_factory=dict[str, str])  # added when the Node is initialized
    # the labels that the controller updates later, unless somebody else changed them on the Node
    followed_labels: frozenset[str] = frozenset()
    shut_down: bool = False  # whether the machine exists and is powered off
    notices: tuple[Notice, ...] = ()


class Instances(Protocol):
    """Finds the machines of Nodes.

    The cloud finds a machine by the Node's provider ID. If the Node has none, the cloud uses the Node's name.
    A provider ID with another scheme raises :class:`~ccm.cloud.errors.NotOurs`.
    """

    def owns(self, provider_id: str, /) -> bool:
        """Whether a provider ID has this cloud's scheme; an empty ID doesn't."""
        ...

    async def get(self, node: NodeView, *, accepted_age: float) -> Instance:
        """Find the machine of a Node.

        ``accepted_age`` is the maximum age of cached data in seconds. With 0, the cloud requests this
        machine from its API; a controller does so before it deletes a Node.

        Raises:
            InstanceNotFound: The machine doesn't exist.
            NotOurs: The Node belongs to another cloud.
            CloudError: The state of the machine is unknown.
        """
        ...

    async def list(
        self, nodes: Sequence[NodeView], *, accepted_age: float
    ) -> Mapping[str, Instance | CloudError]:
        """Find the machines of many Nodes with as few requests as possible.

        Returns the machine by the Node's name, or the error that :meth:`get` would raise. Raises CloudError
        if the state of all machines is unknown. ``accepted_age`` is in seconds.
        """
        ...
