"""Routes: how a cloud's network finds the pods of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ccm.cloud.instances import NodeView
from ccm.cloud.notice import Notice


@dataclass(frozen=True, slots=True)
class Route:
    """One route, as the cloud has it.

    Attributes:
        destination: The pods' CIDR, as text.
        gateway: The address that it leads to.
        provider_id: The machine that has this address now; empty if none of the project has it.
        node_name: The machine's name in the cloud; empty if there is none. For messages only: machines are
            identified by provider_id.
    """

    destination: str
    gateway: str
    provider_id: str = ""
    node_name: str = ""


@dataclass(frozen=True, slots=True)
class RouteTable:
    """All routes of the network, from one complete answer.

    Attributes:
        routes: Every route, foreign ones too.
        machines: Provider IDs of all machines that are attached to the network. Empty is suspicious: the
            controller then deletes nothing.
        limit: How many routes the network can hold; None = not known.
        notices: What the cluster's owner should know.
    """

    routes: tuple[Route, ...]
    machines: frozenset[str]
    limit: int | None = None
    notices: tuple[Notice, ...] = ()


class Routes(Protocol):
    """Reads and changes the routes of one network. The cloud serialises writes to it by itself."""

    async def list(self) -> RouteTable:
        """Read the routes and the machines that they may lead to, both complete.

        Raises:
            CloudError: not known; nothing may be deleted.
        """
        ...

    async def gateway(self, node: NodeView, destination: str) -> str:
        """Say which address a Node's route for this destination has to lead to.

        Raises:
            InstanceNotFound: no machine.
            NotOurs: the Node is another cloud's.
            Rejected: the machine is not in the network, or the destination is not possible in it.
            CloudError: not known.
        """
        ...

    async def create(self, routes: Sequence[Route]) -> Sequence[Exception | None]:
        """Create routes, one after the other. A route that exists already is a success.

        Returns:
            For each of them None, or why it could not be made.
        """
        ...

    async def delete(self, routes: Sequence[Route]) -> Sequence[Exception | None]:
        """Delete routes, one after the other. A route that does not exist is a success.

        Returns:
            For each of them None, or why it is still there.
        """
        ...
