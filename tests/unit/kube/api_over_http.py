"""A real HTTP server on loopback that answers from a MemoryTransport, and can be told to misbehave."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer

from ccm.kube.errors import KubernetesError
from ccm.testing.memory_transport import MemoryTransport

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiOverHttp:
    """Serves `memory`; `override` (if set) answers instead."""

    def __init__(self) -> None:
        self.memory = MemoryTransport()
        self.override: Handler | None = None
        self.seen: list[web.Request] = []
        self.bodies: list[Any] = []
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self.server = TestServer(app, host="127.0.0.1")

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        if context is None:
            await self.server.start_server()
        else:
            await self.server.start_server(ssl=context)
            self.server.scheme = "https"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        text = await request.read()
        body = json.loads(text) if text else None
        self.bodies.append(body)
        if self.override is not None:
            return await self.override(request)
        try:
            return await self._serve(request, body)
        except KubernetesError as error:
            status = {
                "kind": "Status",
                "code": error.status,
                "reason": error.reason,
                "message": error.message,
            }
            return web.json_response(status, status=error.status)

    async def _serve(self, request: web.Request, body: Any) -> web.StreamResponse:
        path = request.path
        if request.method == "GET" and request.query.get("watch"):
            return await self._watch(request)
        if request.method == "GET" and "limit" in request.query:
            return await self._list(request)
        if request.method == "GET":
            answer = await self.memory.get(path, dict)
        elif request.method == "PATCH":
            content_type: Any = request.content_type
            answer = await self.memory.patch(path, body, dict, content_type=content_type)
        elif request.method == "POST":
            answer = await self.memory.create(path, body, dict)
        elif request.method == "PUT":
            answer = await self.memory.update(path, body, dict)
        else:
            await self.memory.delete(path, uid=(body.get("preconditions") or {}).get("uid"))
            answer = {"kind": "Status", "status": "Success"}
        return web.json_response(answer)

    async def _list(self, request: web.Request) -> web.Response:
        start = int(request.query.get("continue", "0"))
        limit = int(request.query["limit"])
        items = self.memory.all(request.path)
        metadata = {"resourceVersion": str(self.memory._version)}
        if start + limit < len(items):
            metadata["continue"] = str(start + limit)
        return web.json_response({"metadata": metadata, "items": items[start : start + limit]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        changes = self.memory.watch(
            request.path,
            dict,
            request.query["resourceVersion"],
            timeout=float(request.query["timeoutSeconds"]),
        )
        await response.prepare(request)
        async for change in changes:
            value = change.object or {"metadata": msgspec.to_builtins(change.metadata)}
            await response.write(json.dumps({"type": change.type, "object": value}).encode() + b"\n")
        return response


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
