"""Routes: how a cloud's network finds the pods of a node."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Route:
    """One route of the network: the pods' CIDR, as text, and the address that it leads to."""

    destination: str
    gateway: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that is attached to the network.

    Attributes:
        provider_id: As in a Node's spec.
        address: Its address in the network; a route to it is made only if it is an InternalIP of its Node.
        node: The name of the only Node that it can be, by what the cloud's owner says; empty = any that has
            its provider ID. What a Node says proves nothing: its kubelet may write anything.
    """

    provider_id: str
    name: str
    address: str
    node: str = ""

    def may_be(self, node: str) -> bool:
        """Whether it can be the machine of a Node of this name."""
        return self.node.lower() in {"", node.lower()}


@dataclass(frozen=True, slots=True)
class RouteTable:
    """All routes of the network, and all machines that they may lead to.

    Attributes:
        routes: Every route, foreign ones too.
        machines: Every machine of the network, by its address.
        complete: Whether ``machines`` is known to have all of them. If not, nothing is deleted.
        families: IP versions that the network can route.
        limit: How many routes the network can hold; None = not known.
    """

    routes: tuple[Route, ...]
    machines: Mapping[str, Machine]
    complete: bool = True
    families: frozenset[int] = frozenset({4})
    limit: int | None = None


class Routes(Protocol):
    """Reads and changes the routes of one network. Writes to it are serialized by the cloud's side."""

    def owns(self, provider_id: str, /) -> bool:
        """Whether a provider ID has this cloud's scheme. An empty one has not."""
        ...

    async def list(self, *, accepted_age: float) -> RouteTable:
        """Read the routes and the machines, at most ``accepted_age`` seconds old; 0 asks the cloud.

        Raises CloudError: not known; nothing may be concluded.
        """
        ...

    async def create(self, route: Route) -> None:
        """Create a route; one that exists is a success. Raises CloudError: it is not known to exist."""
        ...

    async def delete(self, route: Route) -> None:
        """Delete a route. One that does not exist is a success. Raises CloudError: it may be there still."""
        ...


@runtime_checkable
class NormalizesProviderIds(Protocol):
    """What a cloud's routes may have besides: one spelling for the provider IDs of each machine."""

    def normalized(self, provider_id: str, /) -> str:
        """The provider ID as :class:`Machine` has it; one that can't be read stays as it is."""
        ...
