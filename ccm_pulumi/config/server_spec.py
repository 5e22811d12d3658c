"""The spec of each server. ``Settings.servers`` lists them, once for all modules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from .labels import CONTROL_ROLE, NAT_ROLE, NO_NODE, NODE
from .placement import Placement
from .pools import SHORT_FORM

CONTROL_COUNTS = (1, 3, 5)
GROUP_SIZE = 10
"""Maximum number of servers in a placement group."""


class Kind(Enum):
    """What a server is for. The value is its group in the table of costs; a worker's is its pool."""

    NAT = "NAT"
    CONTROL = "control"
    WORKER = ""


@dataclass(frozen=True)
class Keys:
    """The settings that say the type, the location and the image of a server."""

    server_type: str = ""
    location: str = ""
    image: str = ""


@dataclass(frozen=True)
class ServerSpec:
    """A server that the settings ask for."""

    role: str  # its name without the cluster's; names its resources, too
    kind: Kind
    wanted: Placement  # as in the settings
    keys: Keys = Keys()  # the settings for ``wanted`` and the image
    alternatives: tuple[Placement, ...] = ()  # where else it may be created, in order
    fallback: Placement | None = None  # the alternative that it gets; None: the wanted placement
    pool: str = ""  # of a worker; else ``Kind``'s value
    image: str = ""
    is_public: bool = True  # whether it has public addresses, IPv4 and IPv6
    cluster: str = ""
    group: str | None = None  # end of the name of its placement group; None: it is in none
    group_is_set: bool = False  # whether a setting says the group: then another group needs another server
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_taints: Sequence[str] = ()  # as kubectl writes them
    max_unavailable: int = 1  # of its pool, in a rollout
    has_type: bool = False  # whether it exists and has the wanted type, even if the program didn't choose it

    @property
    def placement(self) -> Placement:
        """The type and the location that it gets."""
        return self.fallback or self.wanted

    def at(self, placement: Placement) -> ServerSpec:
        """The server with this placement."""
        return replace(self, fallback=None if placement == self.wanted else placement)

    @property
    def types(self) -> list[str]:
        """The wanted server type, and the one that it gets."""
        return [self.wanted.server_type, self.placement.server_type]

    @property
    def name(self) -> str:
        """Its name in the cloud, its host name, and the name of its Node."""
        return f"{self.cluster}-{self.role}"

    @property
    def group_name(self) -> str:
        """The name of its placement group; empty: it is in none."""
        return "" if self.group is None else f"{self.cluster}{self.group}"

    @property
    def labels(self) -> Mapping[str, str]:
        """Its own labels in the cloud, beside those of the cluster."""
        return {**self._kind_labels(), **(self.wanted.label if self.fallback else {})}

    def _kind_labels(self) -> Mapping[str, str]:
        if self.kind is Kind.NAT:
            # no kubelet may claim this server as its Node's and so receive the traffic of all others
            return {**NAT_ROLE, NODE: NO_NODE}
        if self.kind is Kind.CONTROL:
            return CONTROL_ROLE
        # a server of a stack from before there were pools has no label of its pool
        return {"role": "worker", **({} if self.pool == SHORT_FORM else {"pool": self.pool})}


def control_roles(count: int) -> tuple[str, ...]:
    """Roles of this number of control servers, the first one first."""
    return ("control", *(f"control-{number}" for number in range(2, count + 1)))


CONTROL_ROLES = control_roles(max(CONTROL_COUNTS))
"""Roles of all possible control servers. With ``controlCount`` N, the program uses the first N roles."""


def of_kind(servers: Iterable[ServerSpec], kind: Kind) -> list[ServerSpec]:
    """The servers that are of a kind, in the same order."""
    return [server for server in servers if server.kind is kind]


def has_several_controls(servers: Sequence[ServerSpec], existing: Collection[str]) -> bool:
    """Whether another control server than the first exists and is wanted, so that one can be replaced."""
    return any(control.role in existing for control in of_kind(servers, Kind.CONTROL)[1:])


def resized_in_place(servers: Sequence[ServerSpec], existing: Collection[str]) -> set[str]:
    """Roles of the servers whose type is changed in place. For another type, all others are replaced.

    A new NAT server would have another address. The cluster would be lost with its only control server.
    """
    kinds = {Kind.NAT} if has_several_controls(servers, existing) else {Kind.NAT, Kind.CONTROL}
    return {server.role for server in servers if server.kind in kinds}


def control_group(index: int) -> str:
    """The end of the name of a control server's placement group, by its index.

    The first shares the group of the workers of ``workerCount``, which is full. So the first and one of the
    others may run on one host: five survive that, three need different locations.
    """
    return group_of(SHORT_FORM, 0) if index == 0 else "-control-1"


def group_of(pool: str, number: int) -> str:
    """The end of the name of a server's placement group. It does not depend on other pools.

    The pool of ``workerCount`` shares its first one with the control server, its number 0. A number
    ends the names of others, so that those of the pools ``a`` and ``a-1`` differ.
    """
    if pool == SHORT_FORM:
        index = number // GROUP_SIZE
        return f"-{index + 1}" if index else ""
    return f"-{pool}-{(number - 1) // GROUP_SIZE + 1}"
