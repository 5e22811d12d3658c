"""Servers for machines at 169.254.169.254: the sandbox's HTTP and, with --internet, DNS.

A machine with a public IPv4 address uses the router's sockets. Any other machine uses those of its network. A
private address is unique in its network only, so every network has sockets: responses leave where requests
came from. The mark of a socket is the network's id, which :func:`network_of` reads.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from hetzner_machines import namespaces, resolver, topology
from hetzner_machines.errors import NotPermitted
from hetzner_machines.names import Names

HTTP = 80
BACKLOG = 256

T = TypeVar("T")
End = Callable[[], Awaitable[None]]
Listen = Callable[[socket.socket], Awaitable[End]]
"""Serves HTTP on a listening socket. Returns a function that stops the server and closes the socket."""


def network_of(connection: socket.socket) -> int | None:
    """The network through which a connection came; None if its peer's address is public, or the host's."""
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_MARK) or None


class LinkLocal:
    """Serves in the router and in networks."""

    def __init__(self, names: Names, resolves: resolver.Resolver | None) -> None:
        self._names, self._resolver = names, resolves
        self._listen: Listen | None = None
        self._ends: dict[tuple[str, int], End] = {}  # by namespace and port
        self._lock = asyncio.Lock()

    async def serve_http(self, listen: Listen, networks: Iterable[int]) -> None:
        """Serve HTTP from now on, in the router, in these networks and wherever :meth:`open` is called.

        A network that was deleted meanwhile is fine.
        """
        self._listen = listen
        await self.open(None)
        for network in networks:
            try:
                await self.open(network)
            except NotPermitted:
                if namespaces.exists(self._namespace(network)):
                    raise

    async def open(self, network: int | None) -> None:
        """Start the missing servers in a network, or in the router (None); raises NotPermitted."""
        namespace = self._namespace(network)
        async with self._lock:
            if self._resolver and (namespace, resolver.PORT) not in self._ends:
                sockets = await self._inside(namespace, _for_names)
                self._ends[namespace, resolver.PORT] = await self._resolver.serve(*sockets)
            if self._listen and (namespace, HTTP) not in self._ends:
                made = await self._inside(namespace, lambda: _for_http(network))
                self._ends[namespace, HTTP] = await self._listen(made)

    async def close(self, network: int | None) -> None:
        """Stop serving there; nothing happens without a server."""
        namespace = self._namespace(network)
        await self._close(lambda where: where == namespace)

    async def close_all(self) -> None:
        """Stop serving until it is opened again."""
        await self._close(lambda _where: True)

    async def _close(self, wanted: Callable[[str], bool]) -> None:
        async with self._lock:
            for key in [key for key in self._ends if wanted(key[0])]:
                await self._ends.pop(key)()

    def _namespace(self, network: int | None) -> str:
        return self._names.router if network is None else self._names.network(network)

    async def _inside(self, namespace: str, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(namespaces.inside, namespace, work)
        except OSError as error:
            raise NotPermitted(f"listen at {topology.METADATA} in {namespace}", error) from error


def _for_http(network: int | None) -> socket.socket:
    made = socket.create_server((topology.METADATA, HTTP), backlog=BACKLOG)
    if network is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, network)
    return made


def _for_names() -> tuple[socket.socket, socket.socket]:
    """For UDP and TCP."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        udp.bind((topology.METADATA, resolver.PORT))
        return udp, socket.create_server((topology.METADATA, resolver.PORT), backlog=BACKLOG)
    except OSError:
        udp.close()
        raise
