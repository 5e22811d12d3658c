"""Finds servers of Hetzner Cloud for Nodes, by ID or by name.

A lookup reads either one server, or a list of all servers (one request for each 50 servers). The cheaper way
isn't known in advance, so this module uses the ski-rental strategy: it reads single servers until, within a
short time, they have needed as many requests as a list. Then it reads a list, which also serves all other
lookups. This needs at most twice the optimal number of requests.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from ccm.cloud.errors import CloudError, InstanceNotFound, Notice
from ccm.cloud.instances import HOSTNAME, NodeView
from ccm.hetzner.api import HetznerApi, ListCache, Listing, Priority
from ccm.hetzner.api.api_errors import NotFound, unavailable
from ccm.hetzner.api.models import Server
from ccm.hetzner.official_metrics import OfficialMetrics
from ccm.hetzner.project import Project
from ccm.hetzner.robot.client import RobotServer
from ccm.kube.backoff import TokenBucket

MISSES_AT_ONCE = 10  # missing servers in a burst; each needs a request with the highest priority
MISS_SECONDS = 60.0  # until the next request for a missing server; meanwhile, a list of this age decides
BURST = 30.0  # seconds after which single reads don't count, because one list would not have served all


class Servers:
    """Finds Cloud servers. ``robots`` is the list of Robot servers; None = Robot isn't used."""

    def __init__(
        self,
        api: HetznerApi,
        cached: ListCache[Server],
        *,
        project: Project,
        metrics: OfficialMetrics,
        robots: ListCache[RobotServer] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self.cached = cached
        self._project = project
        self._metrics = metrics
        self._robots = robots
        self._clock = clock
        self._looks = 0
        self._looked_at = 0.0
        self._misses = TokenBucket(1 / MISS_SECONDS, MISSES_AT_ONCE)
        self._asks_again = 0.0

    async def find(
        self, node: NodeView, number: int | None, accepted_age: float, *, listed: bool = False
    ) -> Server:
        """Find the server of a Node.

        Args:
            node: The Node.
            number: The server's ID; None = use the Node's name.
            accepted_age: Maximum age of cached data in seconds; 0 = request the server from Hetzner.
            listed: Use only the cache, whatever its age.

        Raises:
            InstanceNotFound: The server doesn't exist.
            CloudError: It is unknown whether the server exists.
        """
        answer = self._listed(node, number)
        if not listed:
            age = self.cached.item_age(answer.id) if isinstance(answer, Server) else None
            fresh = age is not None and age <= accepted_age
            self._metrics.lookup("instances_v2", hit=fresh)
            answer = answer if fresh else await self._look(node, number, accepted_age)
        if not isinstance(answer, Server):
            raise answer
        self._project.confirm(self.cached.item_age(answer.id))
        return answer

    def _listed(self, node: NodeView, number: int | None) -> Server | CloudError:
        """The cached server of any age, or the error that explains why the cache has none."""
        contents = self.cached.contents
        if number is None:
            return contents.by_name.get(node.name) or InstanceNotFound(f"server named {node.name}")
        if number in contents.undecodable:
            return unavailable("GET /servers", contents.undecodable[number].problem)
        return contents.by_id.get(number) or InstanceNotFound(f"server {number}")

    async def _look(self, node: NodeView, number: int | None, accepted_age: float) -> Server:
        if accepted_age > 0 and self._clock() < self._asks_again:
            # A kubelet can register any number of invalid Nodes, so one list serves all of them. If the list
            # has the server, read it again, because it may have been replaced.
            await self.cached.read(max(accepted_age, MISS_SECONDS), Priority.NODES)
            answer = self._listed(node, number)
            if not isinstance(answer, Server):
                raise self._absent(node) if number is None else answer
        if accepted_age > 0 and self._list_pays():
            self._looks = 0
            await self.cached.read(accepted_age, Priority.NODES)
            answer = self._listed(node, number)
            if isinstance(answer, Server):
                return answer
        try:
            return await (self._look_by_name(node) if number is None else self._look_by_id(number))
        except InstanceNotFound:
            now = self._clock()
            self._asks_again = now + self._misses.reserve(now, MISS_SECONDS)
            raise

    def _list_pays(self) -> bool:
        """Whether single reads have needed as many requests as a list. Otherwise, counts the next read."""
        if self.cached.age is None:
            return True
        now = self._clock()
        if now - self._looked_at > BURST:
            self._looks = 0
        self._looked_at = now
        self._looks += 1
        return self._looks > self.cached.pages

    async def _look_by_id(self, number: int) -> Server:
        with self._api.token.hold():
            try:
                server = await self._api.get(f"/servers/{number}", "server", Server, priority=Priority.NODES)
            except NotFound:
                await self._project.check(Priority.NODES)
                self.cached.remove(number)
                raise InstanceNotFound(f"server {number}") from None
            self.cached.put(server)
            return server

    async def _look_by_name(self, node: NodeView) -> Server:
        name = node.name
        # A Robot server is missing in every Cloud project, so its absence means nothing.
        is_dedicated = self._robots is not None and name in self._robots.contents.by_name
        with self._api.token.hold():
            found: Listing[Server] = await self._api.list(
                "/servers", "servers", Server, params={"name": name}, priority=Priority.NODES
            )
            if not found.items and not found.undecodable and not is_dedicated:
                await self._project.check_new_token(Priority.NODES)
        if found.undecodable:
            raise unavailable(f"GET /servers?name={name}", found.undecodable[0].problem)
        if not found.items:
            raise self._absent(node)
        self.cached.put(found.items[0])
        return found.items[0]

    def _absent(self, node: NodeView) -> InstanceNotFound:
        robots = self._robots.contents.by_id.values() if self._robots is not None else None
        why = explain_absence(node, self.cached.contents.by_id.values(), robots)
        return InstanceNotFound(f"server named {node.name}", notices=[why])


REASON = "InstanceLookupFailed"
NODE = "ccm-from-scratch/node"


def node_of(server: Server) -> str:
    """The name of the only Node that a server may belong to: its label, or else its own name."""
    return server.labels.get(NODE) or server.name


def addresses_of(server: Server) -> set[str]:
    """The public and private IPv4 addresses of a server. A missing address may be an empty text."""
    return {server.public_ipv4, *(private.ip for private in server.private_net)}


def explain_absence(
    node: NodeView, servers: Iterable[Server], dedicated: Iterable[RobotServer] | None
) -> Notice:
    """Explain to the owner of a Node why no server has its name.

    Usually, the names differ. Then the server with one of the Node's addresses is probably the right server.
    ``node`` contains the addresses from its kubelet. ``dedicated``: None = Robot isn't used.
    """
    where = (
        "Hetzner Cloud has no server" if dedicated is None else "Neither Hetzner Cloud nor Robot has a server"
    )
    message = f"{where} named {node.name}; a node and its server must have the same name"
    servers, dedicated = list(servers), None if dedicated is None else list(dedicated)
    # Servers without a public address have an empty text instead.
    own = {address.address for address in node.addresses if address.type != HOSTNAME} - {""}
    for kind, number, name, addresses in _known(servers, dedicated or ()):
        shared = sorted(own & addresses)
        if shared:
            message += (
                f". {kind} {number} has the address {shared[0]} of this Node, but is named {name!r}. "
                "Rename the server or the Node"
            )
            break
    else:
        alike = (
            machine for machine in _known(servers, dedicated or ()) if machine[2].lower() == node.name.lower()
        )
        for kind, number, name, _ in alike:
            message += f". {kind} {number} is named {name!r}. Names are case-sensitive, so rename this server"
            break
    return Notice(REASON, message)


def _known(
    servers: Iterable[Server], dedicated: Iterable[RobotServer]
) -> Iterator[tuple[str, int, str, set[str]]]:
    for server in servers:
        yield "Server", server.id, server.name, addresses_of(server)
    for robot in dedicated:
        yield "Robot server", robot.id, robot.name, {robot.server_ip or ""}
