"""Routes: the path from a cloud's network to the Pods of a Node."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the network: a Pod CIDR, and the address of its next hop."""

    destination: str
    gateway: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that is attached to the network."""

    provider_id: str  # the value of the Node's ``spec.providerID``
    name: str
    address: str  # in the network; only an address that is also an InternalIP of the Node gets a route
    # The name of the machine's Node according to the cloud; if it is empty, any Node with the provider ID.
    # The Node object proves nothing, because a kubelet can write any value into it.
    node: str = ""

    def may_be(self, node: str) -> bool:
        """Whether a Node with this name can run on the machine."""
        return self.node.lower() in {"", node.lower()}


@dataclass(frozen=True, slots=True)
class RouteTable:
    """All routes and machines of the network."""

    routes: tuple[Route, ...]  # also routes that other programs created
    machines: Mapping[str, Machine]  # by address
    complete: bool = True  # whether ``machines`` has all machines; if not, the controller deletes no route
    families: frozenset[int] = frozenset({4})  # IP versions that the network can route
    limit: int | None = None  # maximum number of routes, if it is known


class Routes(Protocol):
    """Reads and changes the routes of a network. The cloud serializes changes."""

    def owns(self, provider_id: str, /) -> bool:
        """Whether a provider ID has this cloud's scheme; an empty ID doesn't."""
        ...

    async def list(self, *, accepted_age: float) -> RouteTable:
        """Read routes and machines of at most ``accepted_age`` seconds (0: from the API), or CloudError."""
        ...

    async def create(self, route: Route) -> None:
        """Create a route unless it exists. Raises CloudError if the route may be missing."""
        ...

    async def delete(self, route: Route) -> None:
        """Delete a route if it exists. Raises CloudError if the route may still exist."""
        ...


@runtime_checkable
class NormalizesProviderIds(Protocol):
    """Optional for routes: a canonical form of the provider ID of a machine."""

    def normalized(self, provider_id: str, /) -> str:
        """The canonical form, as in :class:`Machine`; an invalid provider ID is returned unchanged."""
        ...
