"""DNS for machines with --internet: forwards queries unchanged to the host's name servers.

Machines send queries to the address of the metadata service. Messages aren't decoded; those that are too
short are dropped. So are queries without a response in time, and the client tries again.
"""

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from pathlib import Path

log = logging.getLogger(__name__)

PORT = 53
CONFIGURATION = Path("/etc/resolv.conf")
_ANSWER_SECONDS = 3.0  # then the next name server is tried
_CONNECTION_SECONDS = 20.0
_AT_ONCE = 512  # limit of queries and connections; more are dropped
_SERVERS = 3  # the C library's limit
_CHUNK = 1 << 16  # no message is longer
_HEADER = 12  # bytes of each message's header (RFC 1035)
_INTERFACE = re.compile(r"[A-Za-z0-9_.:-]{1,15}")

Servers = Callable[[], Sequence[str]]
"""Returns the addresses of the host's name servers. The resolver calls the function for each query, because a
laptop can get other name servers when it changes networks."""


def name_servers(text: str) -> list[str]:
    """The addresses of the first name servers in a ``resolv.conf``; other texts are ignored.

    A host name there could only be resolved by these name servers.
    """
    lines = [line.split() for line in text.splitlines()]
    named = [words[1] for words in lines if words[:1] == ["nameserver"] and len(words) > 1]
    return [one for one in named if _is_address(one)][:_SERVERS]


def _is_address(text: str) -> bool:
    address, percent, interface = text.partition("%")
    try:
        version = ip_address(address).version
    except ValueError:
        return False
    return not percent or (version == 6 and _INTERFACE.fullmatch(interface) is not None)


def of_this_host() -> list[str]:
    """The host's current name servers; empty without a configuration."""
    try:
        return name_servers(CONFIGURATION.read_text(errors="replace"))
    except OSError:
        return []


class Resolver:
    """Forwards queries from pairs of sockets."""

    def __init__(self, servers: Servers = of_this_host, port: int = PORT) -> None:
        self._servers, self._port = servers, port
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: list[Callable[[], None]] = []

    async def serve(self, udp: socket.socket, tcp: socket.socket) -> Callable[[], Awaitable[None]]:
        """Serve on these sockets, too; the returned function closes both and drops pending queries."""
        loop = asyncio.get_running_loop()
        datagrams, _ = await loop.create_datagram_endpoint(lambda: _Questions(self._take), sock=udp)
        listening = await asyncio.start_server(self._connected, sock=tcp)

        def close() -> None:
            datagrams.close()
            listening.close()

        async def end() -> None:
            self._closing.remove(close)
            close()

        self._closing.append(close)
        return end

    async def close(self) -> None:
        """Stop; pending queries are dropped."""
        for close in self._closing:
            close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, question: bytes, client: tuple[str, int], back: asyncio.DatagramTransport) -> None:
        if len(question) >= _HEADER and len(self._tasks) < _AT_ONCE:
            self._keep(asyncio.get_running_loop().create_task(self._answer(question, client, back)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(
        self, question: bytes, client: tuple[str, int], back: asyncio.DatagramTransport
    ) -> None:
        for server in self._servers():
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    answer = await _ask(server, self._port, question)
            except OSError as error:
                log.debug("name server %s: %s", server, error or "no answer")
                continue
            if not back.is_closing():
                back.sendto(answer, client)
            return

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio creates a task for each connection"
        try:
            if len(self._tasks) < _AT_ONCE:
                self._keep(task)
                async with asyncio.timeout(_CONNECTION_SECONDS):
                    await self._relay(reader, writer)
        except* OSError as errors:
            log.debug("a connection to a name server failed: %s", errors.exceptions)
        finally:
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy both directions until both sides have ended."""
        for server in self._servers():
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    there, back = await asyncio.open_connection(server, self._port)
            except OSError as error:
                log.debug("name server %s: %s", server, error or "no connection")
                continue
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_copy(reader, back))
                    both.create_task(_copy(there, writer))
            finally:
                back.close()
            return


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while some := await source.read(_CHUNK):
        target.write(some)
        await target.drain()
    with contextlib.suppress(OSError):  # the other side may have closed
        target.write_eof()


async def _ask(server: str, port: int, question: bytes) -> bytes:
    """The response to a query: from a new port, with the query's number."""
    loop, family = asyncio.get_running_loop(), socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as there:
        there.setblocking(False)
        await loop.sock_connect(there, (server, port))
        await loop.sock_sendall(there, question)
        while (answer := await loop.sock_recv(there, _CHUNK))[:2] != question[:2]:
            pass
        return answer


class _Questions(asyncio.DatagramProtocol):
    def __init__(self, take: Callable[[bytes, tuple[str, int], asyncio.DatagramTransport], None]) -> None:
        self._take = take

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self._back = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._take(data, addr, self._back)
