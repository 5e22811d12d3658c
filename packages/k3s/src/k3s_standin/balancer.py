"""An agent's load balancer for API servers: a port on loopback, and behind it a server that answers.

As in k3s: the agent joins by one server, then follows the addresses of the Service ``kubernetes``, keeps them
for its next start, and closes connections to a server that is gone, so that the kubelet takes another one.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from k3s_standin import log, paths
from k3s_standin.api import ApiClient
from k3s_standin.certificates import write_secret
from k3s_standin.mirror import Mirror, setter
from k3s_standin.protocol import url_of

ENDPOINTS = "/api/v1/namespaces/default/endpoints"
CHECK_SECONDS = 5.0
DIAL_SECONDS = 3.0
_CHUNK = 1 << 16


def _of_the_api(endpoints: Mapping[str, Any]) -> list[str] | None:
    """The API servers in the Endpoints of the Service ``kubernetes``; None for other Endpoints."""
    return servers_of(endpoints) if endpoints["metadata"]["name"] == "kubernetes" else None


def servers_of(endpoints: Any) -> list[str]:
    """URLs of the API servers in the Endpoints of the Service ``kubernetes``, sorted."""
    return sorted(
        url_of(address["ip"], port["port"])
        for subset in (endpoints or {}).get("subsets") or []
        for address in subset.get("addresses") or []
        for port in subset.get("ports") or []
    )


def remembered(file: Path) -> list[str]:
    """The servers of the last start; empty at the first one."""
    try:
        return list(json.loads(file.read_text())["ServerAddresses"])
    except FileNotFoundError:
        return []


def ordered(servers: Iterable[str], failed: Iterable[str]) -> list[str]:
    """Servers in the order of attempts: those that failed last come last."""
    gone = set(failed)
    return sorted(servers, key=lambda url: url in gone)


@dataclass
class Balancer:
    """Forwards connections."""

    default: str  # URL from the agent's flags; used while no other server is known
    port: int  # on loopback; 0 for any
    file: Path = paths.BALANCER  # where the servers are kept
    dial: Callable[..., Any] = asyncio.open_connection  # opens a connection to a host and a port
    servers: list[str] = field(default_factory=list, init=False)
    _failed: set[str] = field(default_factory=set, init=False)
    _open: dict[str, set[asyncio.StreamWriter]] = field(default_factory=dict, init=False)
    _serving: set[asyncio.Task[Any]] = field(default_factory=set, init=False)
    _listener: asyncio.Server | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.servers = remembered(self.file) or [self.default]

    @property
    def url(self) -> str:
        """Where clients on this machine reach an API server."""
        return f"https://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen; raises OSError if the port is taken."""
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, and end every connection."""
        if self._listener:
            self._listener.close()
        for task in (tasks := list(self._serving)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def follow(self, api: ApiClient) -> None:
        """Follow the servers and their health until cancelled."""
        changed = asyncio.Event()
        endpoints = Mirror(api, ENDPOINTS, _of_the_api, setter(changed))
        endpoints.start()
        while True:
            await self.check()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), CHECK_SECONDS)
            changed.clear()
            self.take([url for servers in (endpoints.objects or {}).values() for url in servers])

    def take(self, servers: Sequence[str]) -> None:
        """Replace the list of servers; an empty list is ignored."""
        if not servers or list(servers) == self.servers:
            return
        log.info(f"Updated load balancer k3s-agent-load-balancer server addresses -> {list(servers)}")
        for gone in set(self.servers) - set(servers):
            self._hang_up(gone)
        self.servers = list(servers)
        self._failed &= set(servers)
        write_secret(self.file, json.dumps({"ServerURL": self.default, "ServerAddresses": self.servers}))

    async def check(self) -> None:
        """Connect to each server; connections to one that does not answer are closed."""
        async with asyncio.TaskGroup() as tasks:
            for url in self.servers:
                tasks.create_task(self._check(url))

    async def _check(self, url: str) -> None:
        try:
            _, writer = await self._connect(url)
        except OSError as error:
            self._fail(url, error)
            return
        self._failed.discard(url)
        writer.close()

    async def _connect(self, url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = urlsplit(url)
        async with asyncio.timeout(DIAL_SECONDS):
            return await self.dial(address.hostname, address.port)

    def _fail(self, url: str, error: OSError) -> None:
        if url not in self._failed:
            log.warning(f"the server {url} does not respond: {str(error) or 'the connection timed out'}")
        self._failed.add(url)
        self._hang_up(url)

    def _hang_up(self, url: str) -> None:
        for writer in self._open.pop(url, ()):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task, "asyncio creates a task for each connection"
        self._serving.add(task)
        try:
            for url in ordered(self.servers, self._failed):
                try:
                    there = await self._connect(url)
                except OSError as error:
                    self._fail(url, error)
                    continue
                self._failed.discard(url)
                await self._forward(url, (reader, writer), there)
                return
        finally:
            self._serving.discard(task)
            await _abort(writer)

    async def _forward(
        self,
        url: str,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._open.setdefault(url, set()).update((client[1], server[1]))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_copy(client[0], server[1]))
                tasks.create_task(_copy(server[0], client[1]))
        finally:
            self._open.get(url, set()).difference_update((client[1], server[1]))
            await _abort(server[1])


async def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):  # the connection may have failed
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one side ends, which ends the other: TLS has its own end of data."""
    with contextlib.suppress(OSError):  # a broken connection ends like a closed one
        while content := await reader.read(_CHUNK):
            writer.write(content)
            await writer.drain()
    writer.close()
