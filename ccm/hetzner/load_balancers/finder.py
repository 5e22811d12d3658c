"""Finds the servers that traffic goes to, in the view of servers that all controllers share."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ccm.cloud import NodeView, Notice
from ccm.hetzner.api import Priority, View
from ccm.hetzner.api.wire import LoadBalancer, LoadBalancerType, Server
from ccm.hetzner.load_balancers.creation import Site, site_near
from ccm.hetzner.load_balancers.targets import NO_ROBOTS, Target, candidates, settle, target_of
from ccm.hetzner.load_balancers.wishes.read import Wishes

SERVERS_AGE = 60.0
MISSING_AGE = 60.0  # seconds for which a server that a fresh list lacks is taken to be missing


@dataclass(frozen=True, slots=True)
class Found:
    """Where traffic can go.

    Attributes:
        targets: What the load balancer should have.
        ours: Identities of all targets that are this cluster's.
        strange: The nodes have servers, but this project has none of them.
        notices: What the owner should know.
    """

    targets: tuple[Target, ...]
    ours: frozenset[tuple[int, str]]
    strange: bool
    notices: list[Notice]


class TargetFinder:
    """See the module.

    Args:
        servers: The shared view.
        scheme: What provider IDs of Cloud servers start with.
        network: The private network's id, or None.
        robots: Looks up public IPv4 addresses of dedicated servers by number; None = there are none to be.
    """

    def __init__(
        self,
        servers: View[Server],
        scheme: str,
        network: Callable[[], int | None],
        robots: Callable[[], Awaitable[Mapping[int, str]]] | None = None,
    ) -> None:
        self._servers = servers
        self._scheme = scheme
        self._network = network
        self._robots = robots
        self._ours: dict[int, set[tuple[int, str]]] = {}
        self._missing: dict[int, float] = {}

    async def find(
        self,
        wishes: Wishes,
        balancer: LoadBalancer | None,
        limits: LoadBalancerType,
        nodes: Sequence[NodeView],
    ) -> Found:
        """Look for the targets of a Service.

        Args:
            wishes: Its annotations.
            balancer: Its load balancer now, or None.
            limits: Of the load balancer.
            nodes: Those behind it.

        Raises:
            CloudError: the servers are not known.
        """
        selected = [node for node in nodes if wishes.share or wishes.nodes.matches(node.labels)]
        robots = await self._robot_addresses(nodes, private=wishes.use_private_ip)
        wanted = candidates(selected, self._scheme, private=wishes.use_private_ip, robots=robots)
        found = (target_of(one) for one in balancer.targets) if balancer else ()
        present = {one for one in found if one is not None}
        await self._look_up(
            {one.server for one in wanted.by_node.values() if one.server and one not in present}
        )
        every = candidates(nodes, self._scheme, private=wishes.use_private_ip, robots=robots).by_node.values()
        ours = {one.identity for one in every}
        foreign = 0
        if balancer is not None:
            ours |= self.remember(balancer, ours)
            foreign = _foreign(balancer, ours, kept=wishes.preserve_foreign)
        targets, notices = settle(
            wanted,
            present,
            self._servers.contents.by_id.get,
            network=self._network(),
            limit=max(0, limits.max_targets - foreign),
        )
        numbers = {one.server for one in wanted.by_node.values() if one.server}
        if nodes and not selected:
            notices.append(_none_selected(len(nodes)))
        strange = bool(numbers) and numbers.isdisjoint(self._servers.contents.by_id)
        return Found(targets, frozenset(ours), strange, notices)

    async def _robot_addresses(self, nodes: Sequence[NodeView], *, private: bool) -> Mapping[int, str] | None:
        """Addresses of dedicated servers; Robot is asked only if their Nodes don't say them.

        As with the address family ipv6: then a Node has no IPv4 address, and its server has one.
        """
        if self._robots is None:
            return None
        unsaid = candidates(nodes, self._scheme, private=private).left_out.get("InternalIPNotConfigured")
        return await self._robots() if unsaid else NO_ROBOTS

    def reachable(self) -> frozenset[int]:
        """Ids of servers that have a public IPv4 address."""
        servers = self._servers.contents.by_id.values()
        return frozenset(one.id for one in servers if one.public_net.ipv4 and one.public_net.ipv4.ip)

    async def site(self, nodes: Sequence[NodeView]) -> Site:
        """Near the servers."""
        wanted = {one.server for one in candidates(nodes, self._scheme, private=False).by_node.values()}
        servers = (await self._servers.read(SERVERS_AGE, Priority.LOAD_BALANCERS)).by_id
        return site_near(server for number, server in servers.items() if number in wanted)

    def remember(self, balancer: LoadBalancer, ours: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
        """Know targets for ours for as long as they are there, also when their Nodes have left.

        Args:
            balancer: It now.
            ours: Identities of targets that this cluster's Nodes are, or that we added.

        Returns:
            All that are known for ours.
        """
        present = {one.identity for target in balancer.targets if (one := target_of(target))}
        known = self._ours.get(balancer.id, set()).union(ours) & present
        self._ours[balancer.id] = known
        return known

    def forget(self, balancer: LoadBalancer) -> None:
        """The load balancer is no more, or is not ours any more."""
        self._ours.pop(balancer.id, None)

    def keep(self, numbers: Collection[int]) -> None:
        """Forget all load balancers but these; others may have been deleted by somebody else.

        Args:
            numbers: Ids of those that there are.
        """
        self._ours = {number: known for number, known in self._ours.items() if number in numbers}

    async def _look_up(self, numbers: set[int]) -> None:
        """Have servers in the view; what was missed in a fresh list is not looked for again at once."""
        listed = self._servers.age is not None
        if not numbers or (listed and all(self._is_known(number) for number in numbers)):
            return
        servers = (await self._servers.read(SERVERS_AGE, Priority.LOAD_BALANCERS)).by_id
        missing = numbers - servers.keys()
        now = time.monotonic()
        self._missing = {one: since for one, since in self._missing.items() if now - since < MISSING_AGE}
        if missing - self._missing.keys():
            servers = (await self._servers.read(0.0, Priority.LOAD_BALANCERS)).by_id
            self._missing.update(dict.fromkeys(missing - servers.keys(), now))

    def _is_known(self, number: int) -> bool:
        """Whether a server was read lately, if only by itself, as a new Node's is."""
        age = self._servers.item_age(number)
        return age is not None and age <= SERVERS_AGE


def _none_selected(number: int) -> Notice:
    text = (
        f"load-balancer.hetzner.cloud/node-selector selects none of the {number} nodes: the load balancer "
        "has no targets"
    )
    return Notice("NodeSelectorMatchesNothing", text)


def _foreign(balancer: LoadBalancer, ours: Collection[tuple[int, str]], *, kept: bool) -> int:
    """How many targets stay that are not for us to remove; they take room too.

    Args:
        balancer: It now.
        ours: Identities of this cluster's targets.
        kept: Whether targets stay that may be somebody else's; label selectors always do.
    """
    found = [target_of(one) for one in balancer.targets]
    return sum(one is None or (kept and one.identity not in ours) for one in found)
