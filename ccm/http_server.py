"""Serves HTTP to any client that reaches the port, and limits what each can use.

A client can hold connections open, send half a request or not read the response. Each connection needs
memory: with TLS about 280 KiB, most of it for asyncio's buffer of 256 KiB. The limits are:

- A connection serves one request, and is closed after some seconds in any case.
- The number of connections is limited, in total and for each peer. At a limit, the oldest connection of the
  new one's peer, or of the peer with the most connections, is closed. So probes can always connect.
- The number of bytes from a connection is limited. We never read the body of a request.

Probes and Prometheus need no more: the kubelet opens a connection for each probe anyway, and a scrape comes
every half a minute.
"""

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import structlog
from aiohttp import web
from aiohttp.http import HttpProcessingError

_BACKLOG = 128
_SHUTDOWN = 1.0
_PAUSE = 1.0

log = structlog.stdlib.get_logger(__name__)


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a log record is about our own error, and not about a request that isn't HTTP."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_requests_log = logging.getLogger(f"{__name__}.requests")
_requests_log.addFilter(_is_ours)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for clients without authentication."""

    connections: int = 64  # simultaneous connections
    of_one_peer: int = 16  # simultaneous connections from an IPv4 address, or from an IPv6 /64 network
    request: float = 10.0  # seconds for the TLS handshake, and again for the complete request
    whole: float = 30.0  # maximum lifetime of a connection in seconds
    received: int = 65536  # maximum bytes from a connection, without the overhead of TLS


@asynccontextmanager
async def serving(
    application: web.Application,
    *,
    address: str,
    port: int,
    context: Callable[[], ssl.SSLContext] | None = None,
    reuse_port: bool = False,
    limits: Limits | None = None,
) -> AsyncGenerator[int]:
    """Serve while the block runs; yields the port. Raises OSError if the address can't be listened on.

    An empty address, ``0.0.0.0`` and ``::`` mean all addresses, IPv4 and IPv6, as in Go; port 0: a free one.
    ``context`` returns the TLS context for the next connection; None = no TLS.
    """
    chosen = limits or Limits()
    application.middlewares.insert(0, _once)
    runner = web.AppRunner(
        application,
        access_log=None,
        logger=_requests_log,
        keepalive_timeout=chosen.request,
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN,
    )
    await runner.setup()
    try:
        sockets = await _listen(address, port, reuse_port=reuse_port)
        limiter = _ConnectionLimiter(cast("Callable[[], asyncio.Protocol]", runner.server), context, chosen)
        tasks = [
            asyncio.create_task(limiter.accept_forever(listening), name="serving") for listening in sockets
        ]
        try:
            yield sockets[0].getsockname()[1]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for listening in sockets:
                listening.close()
            await limiter.close()
    finally:
        await runner.cleanup()


@web.middleware
async def _once(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Close the connection after every response, also after an error."""
    try:
        response = await handler(request)
    except web.HTTPException as refusal:
        refusal.force_close()
        raise
    response.force_close()
    return response


async def _listen(address: str, port: int, *, reuse_port: bool) -> list[socket.socket]:
    if is_everywhere(address):
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        places: list[tuple[int, Any]] = [(family, ("", port))]
    else:
        both = False
        found = await asyncio.get_running_loop().getaddrinfo(address, port, type=socket.SOCK_STREAM)
        places = list(dict.fromkeys((family, place) for family, _, _, _, place in found))
    sockets: list[socket.socket] = []
    try:
        for family, place in places:
            one = socket.create_server(
                place, family=family, backlog=_BACKLOG, reuse_port=reuse_port, dualstack_ipv6=both
            )
            one.setblocking(False)
            sockets.append(one)
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    return sockets


def is_everywhere(address: str) -> bool:
    """Whether an address means all addresses of the host."""
    with suppress(ValueError):
        return ipaddress.ip_address(address).is_unspecified
    return not address


def peer_of(address: str) -> str:
    """The peer to which connections from an address belong; see :class:`Limits`."""
    parsed = ipaddress.ip_address(address)
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


class _ConnectionLimiter:
    """Accepts connections, and closes the oldest of the busiest peer when a limit is reached."""

    def __init__(
        self,
        protocols: Callable[[], asyncio.Protocol],
        context: Callable[[], ssl.SSLContext] | None,
        limits: Limits,
    ) -> None:
        self._protocols = protocols
        self._context = context
        self._limits = limits
        self._open: dict[asyncio.Task[None], str] = {}  # with their peers, the oldest first
        self._closing: set[asyncio.Task[None]] = set()

    async def accept_forever(self, listening: socket.socket) -> None:
        """Let connections in until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
                peer = peer_of(address[0])
            except OSError as error:
                log.warning("connection_not_accepted", why=str(error))
                await asyncio.sleep(_PAUSE)
                continue
            self._evict_if_full(peer)
            task = asyncio.create_task(self._serve(connection))
            self._open[task] = peer
            task.add_done_callback(self._forget)

    async def close(self) -> None:
        """Close all connections."""
        for task in list(self._open):
            self._close_one(task)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _evict_if_full(self, peer: str) -> None:
        counts = Counter(self._open.values())
        if counts[peer] >= self._limits.of_one_peer:
            greedy = peer
        elif len(self._open) >= self._limits.connections:
            greedy = counts.most_common(1)[0][0]
        else:
            return
        self._close_one(next(task for task, whose in self._open.items() if whose == greedy))

    def _close_one(self, task: asyncio.Task[None]) -> None:
        del self._open[task]
        self._closing.add(task)
        task.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._open.pop(task, None)
        self._closing.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("connection_failed", error=repr(error))

    async def _serve(self, connection: socket.socket) -> None:
        """One connection, from its first byte until it is closed."""
        loop = asyncio.get_running_loop()
        protocol = _Bounded(self._protocols(), self._limits.received)
        context = self._context() if self._context is not None else None
        times: dict[str, float] = {}
        if context is not None:
            times = {"ssl_handshake_timeout": self._limits.request, "ssl_shutdown_timeout": _SHUTDOWN}
        transport: asyncio.BaseTransport | None = None
        try:
            async with asyncio.timeout(self._limits.whole):
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol, connection, ssl=context, **times
                )
                await protocol.closed.wait()
        except OSError as error:  # a timeout, too; a failed TLS handshake is an OSError
            log.debug("connection_ended", why=repr(error))
        finally:
            # Don't abort a closed transport: asyncio's TLS transport would fail in Python up to 3.11.2.
            if isinstance(transport, asyncio.WriteTransport) and not protocol.closed.is_set():
                transport.abort()
            connection.close()


class _Bounded(asyncio.Protocol):
    """Passes a limited number of bytes to a protocol; ``closed`` is set when the connection is closed."""

    def __init__(self, protocol: asyncio.Protocol, most: int) -> None:
        self.closed = asyncio.Event()
        self._protocol = protocol
        self._left = most
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left >= 0:
            self._protocol.data_received(data)
        elif self._transport is not None:
            self._transport.abort()

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
