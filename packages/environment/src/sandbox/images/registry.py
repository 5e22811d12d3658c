"""The sandbox's registry: images are pushed from this host, and every machine looks there first.

The program is that of the project Distribution. It starts with the first request, listens on a UNIX socket
and ends with the sandbox process. Requests arrive on the API's sockets, so it has no port:
from this host on 127.0.0.1; from machines, which only read, at 169.254.169.254.
"""

import asyncio
import json
import os
import re
import secrets
from collections.abc import AsyncIterator, Collection
from ipaddress import ip_address
from pathlib import Path

import aiohttp
from aiohttp import hdrs, web
from multidict import CIMultiDictProxy
from yarl import URL

from ccmfs_common.peers import user_of
from sandbox.errors import SandboxError

FOLDER = "registry"
"""The registry's folder in the folder ``.sandbox``. ``./dev down`` deletes the registry's folder."""

STOP_SECONDS = 5.0
_START_SECONDS = 30.0
_POLL_SECONDS = 0.02
_CHUNK = 256 * 1024
_LIBRARY = re.compile(r"^/v2/library/")
_OF_ONE_HOP = frozenset(
    name.lower()
    for name in (
        hdrs.CONNECTION,
        hdrs.HOST,
        hdrs.KEEP_ALIVE,
        hdrs.PROXY_AUTHENTICATE,
        hdrs.PROXY_AUTHORIZATION,
        hdrs.TE,
        hdrs.TRAILER,
        hdrs.TRANSFER_ENCODING,
        hdrs.UPGRADE,
        hdrs.EXPECT,
    )
)


class NoRegistry(SandboxError):
    """The registry doesn't run; the message says why."""


class Registry:
    """A registry that starts with the first request.

    Args:
        program: Of Distribution; None where it has not been built.
        folder: For images, configuration and log; made when it is needed.
        address: The UNIX socket that it listens on; 107 characters at most.
        users: IDs of the host's users that may use it.
        elsewhere: The error for machines if an image isn't here and can't be elsewhere; empty if it can.
        idle_seconds: A transfer ends after this many seconds without a byte.
    """

    def __init__(
        self,
        program: Path | None,
        folder: Path,
        address: Path,
        users: Collection[int],
        elsewhere: str = "",
        *,
        idle_seconds: float = 300.0,
    ) -> None:
        self._program, self._folder, self._address = program, folder, address
        self._users = frozenset(users)
        self._elsewhere = elsewhere
        self._idle_seconds = idle_seconds
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._session: aiohttp.ClientSession | None = None

    def add_to(self, app: web.Application) -> None:
        """Serve ``/v2`` in an application; the program ends with it."""
        app.router.add_route("*", "/v2", self._handle)
        app.router.add_route("*", "/v2/{path:.*}", self._handle)
        app.cleanup_ctx.append(self._lifetime)

    async def _lifetime(self, _app: web.Application) -> AsyncIterator[None]:
        yield
        await self._stop()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if reason := self._refusal(request):
            return _error(403, "DENIED", reason)
        try:
            session = await self._running()
        except NoRegistry as error:
            return _error(503, "UNAVAILABLE", str(error))
        try:
            # a machine looks here before it asks another registry, which containerd names in ``ns``
            elsewhere = self._elsewhere if "ns" in request.query and "/manifests/" in request.path else ""
            return await _forward(request, session, elsewhere, self._idle_seconds)
        except (aiohttp.ClientError, TimeoutError) as error:
            return _error(502, "UNAVAILABLE", f"the registry process does not respond: {error}")

    def _refusal(self, request: web.Request) -> str:
        """Why a request is not answered; empty if it is."""
        transport = request.transport
        if transport is None or not request.remote:
            return "the connection is gone"
        if not ip_address(request.remote).is_loopback:
            reads = request.method in (hdrs.METH_GET, hdrs.METH_HEAD)
            return (
                ""
                if reads
                else (
                    "machines can pull from this registry, but can't push to it; push from "
                    "the host, to the address that './dev env' prints"
                )
            )
        ends = (transport.get_extra_info("peername")[:2], transport.get_extra_info("sockname")[:2])
        known = user_of(*ends) in self._users
        return "" if known else "on this host, only root and the user of the sandbox may use the registry"

    async def _running(self) -> aiohttp.ClientSession:
        """How to ask the program, which is started unless it runs."""
        async with self._lock:
            ended = self._process is None or self._process.returncode is not None
            # Without a session it did not come to listen; a reset of the sandbox takes its socket from it.
            if ended or self._session is None or not self._address.exists():
                await self._stop()
                self._session = await self._start()
            return self._session

    async def _start(self) -> aiohttp.ClientSession:
        if self._program is None:
            raise NoRegistry("the registry has not been built yet; './dev setup' builds the registry")
        log = self._folder / "log"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._address.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._address.unlink(missing_ok=True)
            configuration = self._folder / "config.json"  # JSON is YAML, too
            configuration.write_text(json.dumps(self._configuration()))
            with log.open("ab") as output:
                # With it the kernel ends the program when we are killed.
                command = ("setpriv", "--pdeathsig", "KILL", str(self._program), "serve", str(configuration))
                self._process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={"PATH": os.environ.get("PATH", os.defpath), "OTEL_TRACES_EXPORTER": "none"},
                )
            await self._until_it_listens(self._process, log)
        except OSError as error:
            raise NoRegistry(f"the registry can't be started: {error}") from error
        return aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(self._address), limit=0),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=_START_SECONDS, sock_read=self._idle_seconds
            ),
            auto_decompress=False,
        )

    def _configuration(self) -> dict[str, object]:
        """https://distribution.github.io/distribution/about/configuration/"""
        return {
            "version": 0.1,
            "storage": {
                "filesystem": {"rootdirectory": str(self._folder / "images")},
                "delete": {"enabled": True},
            },
            "http": {
                "net": "unix",
                "addr": str(self._address),
                "secret": secrets.token_hex(16),
                "relativeurls": True,
            },
            "log": {"level": "warn", "accesslog": {"disabled": True}},
        }

    async def _until_it_listens(self, process: asyncio.subprocess.Process, log: Path) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await _accepts(self._address):
                    if process.returncode is not None:
                        raise NoRegistry(f"the registry ended with exit code {process.returncode}; see {log}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise NoRegistry(f"the registry does not answer within {_START_SECONDS:g} s; see {log}") from None

    async def _stop(self) -> None:
        if self._session is not None:
            await self._session.close()
        process, self._process, self._session = self._process, None, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _forward(
    request: web.Request, session: aiohttp.ClientSession, elsewhere: str, idle_seconds: float
) -> web.StreamResponse:
    """Forward a request to the program, and its response to the client."""
    # Kubernetes looks for 'app:1' in this folder; a person pushes 'ADDRESS/app:1' and means that.
    path = _LIBRARY.sub("/v2/", request.rel_url.raw_path)
    url = URL.build(
        scheme="http", host="registry", path=path, query_string=request.rel_url.raw_query_string, encoded=True
    )
    body = _in_time(request.content.iter_chunked(_CHUNK), idle_seconds) if request.can_read_body else None
    asked = session.request(
        request.method, url, headers=_onward(request.headers), data=body, allow_redirects=False
    )
    async with asked as answer:
        if answer.status == web.HTTPNotFound.status_code and elsewhere:
            # Of all that registries answer, containerd shows this first, and after a 404 nothing of ours. An
            # response to HEAD has no body, so the status line has the reason, too.
            return _error(web.HTTPForbidden.status_code, "DENIED", elsewhere, reason=elsewhere)
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        response.headers.extend(_onward(answer.headers))
        await response.prepare(request)
        try:
            if request.method != hdrs.METH_HEAD:
                async for chunk in answer.content.iter_chunked(_CHUNK):
                    async with asyncio.timeout(idle_seconds):
                        await response.write(chunk)
            await response.write_eof()
        except (aiohttp.ClientError, TimeoutError):
            if request.transport:  # too late for another answer: the client sees that it is cut off
                request.transport.abort()
        return response


async def _in_time(chunks: AsyncIterator[bytes], idle_seconds: float) -> AsyncIterator[bytes]:
    """The chunks of an upload; raises TimeoutError if the next chunk is late, because aiohttp doesn't."""
    while True:
        try:
            async with asyncio.timeout(idle_seconds):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        yield chunk


def _onward(headers: CIMultiDictProxy[str]) -> list[tuple[str, str]]:
    """The headers without those that concern a single connection."""
    return [(name, value) for name, value in headers.items() if name.lower() not in _OF_ONE_HOP]


async def _accepts(address: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(str(address))
    except OSError:
        return False
    writer.close()
    return True


def _error(status: int, code: str, message: str, *, reason: str | None = None) -> web.Response:
    """https://github.com/opencontainers/distribution-spec/blob/main/spec.md#error-codes"""
    body = {"errors": [{"code": code, "message": message}]}
    return web.json_response(body, status=status, reason=reason)
