"""A real HTTP server on loopback that answers from a MemoryTransport, and can be made to misbehave."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.test_utils import TestServer

from ccm.testing.memory_transport import MemoryTransport
from tests.faults.api_server import ApiServer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiOverHttp(ApiServer):
    """Serves `memory`; `override` (if set) answers instead."""

    def __init__(self) -> None:
        super().__init__(MemoryTransport())
        self.override: Handler | None = None
        self.seen: list[web.Request] = []
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self.server = TestServer(app, host="127.0.0.1")

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        await self.server.start_server(ssl=context)
        if context is not None:
            self.server.scheme = "https"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        return await (self.override or self.handle)(request)


def raw(*chunks: bytes, then: Callable[[web.Request], Awaitable[None]] | None = None) -> Handler:
    """A handler that streams chunks, then does something (hang up, hang on), then ends."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0)
        if then is not None:
            await then(request)
        return response

    return handle


async def hang_up(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


async def hang_on(_request: web.Request) -> None:
    await asyncio.Event().wait()


def refuse(status: int, reason: str, **headers: str) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        body = {"kind": "Status", "code": status, "reason": reason, "message": f"{reason} it is"}
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body, status=status, headers=names)

    return handle
