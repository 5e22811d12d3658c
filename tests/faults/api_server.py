"""An API server on a loopback port whose objects are in memory: as much of it as the CCM's process needs."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from bench.lab.http import served
from ccm.kube.errors import KubernetesError
from ccm.testing.memory_transport import MemoryTransport


class ApiServer:
    def __init__(self, memory: MemoryTransport) -> None:
        self.memory = memory

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request; errors in Kubernetes' form."""
        try:
            if request.method == "GET" and request.query.get("watch"):
                return await self._watch(request)
            return web.json_response(await self._answer(request))
        except KubernetesError as error:
            body = {"kind": "Status", "code": error.status, "reason": error.reason, "message": error.message}
            return web.json_response(body, status=error.status)

    async def _answer(self, request: web.Request) -> Any:
        text = await request.read()
        body = json.loads(text) if text else {}
        path, memory = request.path, self.memory
        if request.method == "GET" and "limit" in request.query:
            return await self._list(request)
        if request.method == "GET":
            return await memory.get(path, dict)
        if request.method == "PATCH":
            content_type: Any = request.content_type
            return await memory.patch(path, body, dict, content_type=content_type)
        if request.method == "POST":
            return await memory.create(path, body, dict)
        if request.method == "PUT":
            return await memory.update(path, body, dict)
        await memory.delete(path, uid=(body.get("preconditions") or {}).get("uid"))
        return {"kind": "Status", "status": "Success"}

    async def _list(self, request: web.Request) -> Any:
        name = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
        listing = self.memory.list_pages(request.path, dict, limit=1_000_000, name=name)
        (page,) = [page async for page in listing]
        start = int(request.query.get("continue", "0"))
        end = start + int(request.query["limit"])
        metadata = {"resourceVersion": page.resource_version}
        metadata |= {"continue": str(end)} if end < len(page.items) else {}
        return {"metadata": metadata, "items": page.items[start:end]}

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        changes = self.memory.watch(
            request.path,
            dict,
            request.query["resourceVersion"],
            timeout=float(request.query["timeoutSeconds"]),
        )
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with suppress(ConnectionResetError):  # the CCM has died, which is what this is for
            async for change in changes:
                value = change.object or {"metadata": msgspec.to_builtins(change.metadata)}
                await response.write(json.dumps({"type": change.type, "object": value}).encode() + b"\n")
        return response


def kubeconfig(url: str) -> dict[str, Any]:
    """Access without credentials; JSON is YAML."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "clusters": [{"name": "lab", "cluster": {"server": url}}],
        "users": [{"name": "lab", "user": {}}],
    }


@asynccontextmanager
async def serve_memory(memory: MemoryTransport, folder: Path) -> AsyncIterator[Path]:
    """Serve objects in memory; yields a kubeconfig in the folder."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", ApiServer(memory).handle)
    async with served(app) as url:
        file = folder / "kubeconfig.json"
        file.write_text(json.dumps(kubeconfig(url)))
        yield file
