"""Finds servers for targets in the cache that all controllers share."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from ccm.cloud import NodeView
from ccm.hetzner.api import ListCache, Priority
from ccm.hetzner.api.models import LoadBalancer, Server
from ccm.hetzner.load_balancers.targets import Candidates, Identity, Target, candidates, targets_of
from ccm.hetzner.servers import addresses_of, node_of

SERVERS_AGE = 60.0
MISSING_AGE = 60.0  # seconds without another read for a server that a new list lacks


class ServerCache:
    """Finds the servers of Nodes. All methods raise ``CloudError`` if the servers are unknown.

    Args:
        scheme: The prefix of provider IDs of Cloud servers.
        robots: Returns public IPv4 addresses of Robot servers by number; None = the cluster has none.
        name_check: Whether :func:`~ccm.hetzner.servers.node_of` must name the Node of a server.
    """

    def __init__(
        self,
        servers: ListCache[Server],
        scheme: str,
        robots: Callable[[], Awaitable[Mapping[int, str]]] | None = None,
        *,
        name_check: bool = True,
    ) -> None:
        self._servers = servers
        self._name_check = name_check
        self._scheme = scheme
        self._robots = robots
        self._ours: dict[int, set[Identity]] = {}
        self._missing: dict[int, float] = {}

    async def candidates(self, nodes: Sequence[NodeView], *, private: bool) -> Candidates:
        """The possible target of each Node. Reads Robot only if a Robot Node has no IPv4 address.

        For example, with the address family ipv6, the Node has no IPv4 address, but its server has one.
        """
        if self._robots is None:
            return candidates(nodes, self._scheme, private=private, robots=None)
        found = candidates(nodes, self._scheme, private=private)
        if "InternalIPNotConfigured" not in found.left_out:
            return found
        return candidates(nodes, self._scheme, private=private, robots=await self._robots())

    async def look_up(
        self, wanted: Candidates, balancer: LoadBalancer | None, every: Candidates | None = None
    ) -> Mapping[int, Server]:
        """The existing servers of candidates and of a load balancer's targets, by ID.

        Existing targets need no lookup, except servers of ``every``, which we must distinguish from foreign
        targets. If a new list lacks a server, the server isn't looked up again immediately.
        """
        present = targets_of(balancer)
        numbers = {
            target.server for target in wanted.by_node.values() if target.server and target not in present
        }
        numbers |= {target.server for target in every.by_node.values() if target.server} if every else set()
        listed = self._servers.age is not None
        if numbers and not (listed and all(self._is_known(number) for number in numbers)):
            servers = (await self._servers.read(SERVERS_AGE, Priority.LOAD_BALANCERS)).by_id
            missing = numbers - servers.keys()
            now = time.monotonic()
            self._missing = {one: since for one, since in self._missing.items() if now - since < MISSING_AGE}
            if missing - self._missing.keys():
                servers = (await self._servers.read(0.0, Priority.LOAD_BALANCERS)).by_id
                self._missing.update(dict.fromkeys(missing - servers.keys(), now))
        known = self._servers.contents.by_id
        ids = {one.server for one in (*wanted.by_node.values(), *present)}
        return {number: known[number] for number in ids if number in known}

    def unconfirmed(self, found: Candidates) -> frozenset[str]:
        """Names of Nodes for which no server confirms that the target belongs to the Node.

        A kubelet can write any provider ID and address into its Node. So the server must belong to the Node,
        and the address of a Robot target must not be the address of a Cloud server.
        """
        servers = self._servers.contents.by_id
        by_address = any(candidate.ip for candidate in found.by_node.values())
        taken = (
            {ip for server in servers.values() for ip in addresses_of(server)} if by_address else set[str]()
        )

        def is_unconfirmed(node: str, target: Target) -> bool:
            if not target.server:
                return target.ip in taken
            server = servers.get(target.server) if self._name_check else None
            return server is not None and node_of(server).lower() != node.lower()

        return frozenset(node for node, target in found.by_node.items() if is_unconfirmed(node, target))

    async def zone_of(self, found: Candidates) -> str:
        """The network zone of most of the Nodes' servers; empty = unknown."""
        wanted = {target.server for target in found.by_node.values()}
        servers = (await self._servers.read(SERVERS_AGE, Priority.LOAD_BALANCERS)).by_id
        zones = Counter(
            server.location.network_zone
            for number, server in servers.items()
            if number in wanted and server.location.network_zone
        )
        return min(zones, key=lambda zone: (-zones[zone], zone), default="")

    def remember(self, balancer: LoadBalancer, ours: Iterable[Identity]) -> set[Identity]:
        """Store ``ours``, the targets of this cluster, while they exist. Returns all stored targets."""
        present = {target.identity for target in targets_of(balancer)}
        known = self._ours.get(balancer.id, set()).union(ours) & present
        self._ours[balancer.id] = known
        return known

    def forget(self, balancer: LoadBalancer) -> None:
        """Remove the data of a load balancer that is gone or no longer ours."""
        self._ours.pop(balancer.id, None)

    def keep(self, numbers: Collection[int]) -> None:
        """Remove the data of all load balancers except these IDs."""
        self._ours = {number: known for number, known in self._ours.items() if number in numbers}

    def _is_known(self, number: int) -> bool:
        """Whether a server was read recently, in a list or separately."""
        age = self._servers.item_age(number)
        return age is not None and age <= SERVERS_AGE
