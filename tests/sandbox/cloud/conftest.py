"""Emulators on loopback ports whose every answer is validated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from ipaddress import IPv4Network
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from cloud_emulator import READ_TOKEN, TOKENS, Emulator, Start
from cloud_openapi import description

from sandbox.cloud.app import create_app
from sandbox.cloud.backend import Backend, RecordsBackend
from sandbox.cloud.config import CloudConfig


@web.middleware
async def validate(request: web.Request, handler: Any) -> web.StreamResponse:
    response = await handler(request)
    known = description()
    if known is not None and request.path.startswith("/v1/") and isinstance(response, web.Response):
        is_json = response.content_type == "application/json" or response.status == 204
        if is_json and response.status not in {404, 405, 499}:
            body = bytes(response.body or b"")
            problems = known.problems(request.method, request.path.removeprefix("/v1"), response.status, body)
            if problems:
                return web.Response(status=599, text="\n".join(problems))
    return response


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start emulators; all end with the test."""
    async with AsyncExitStack() as stack:

        async def run(backend: Backend | None = None, **settings: Any) -> Emulator:
            settings = {
                "tokens": TOKENS,
                "read_only_tokens": frozenset({READ_TOKEN}),
                "rate_limit": 0,
                **settings,
            }
            app = create_app(CloudConfig(**settings), backend or RecordsBackend(), randomness=Random(1))
            app.middlewares.append(validate)
            server = TestServer(app)
            await server.start_server()
            stack.push_async_callback(server.close)
            session = await stack.enter_async_context(ClientSession())
            return Emulator(app, server, session)

        yield run


@pytest.fixture
async def emulator(start: Start) -> Emulator:
    return await start(public_ipv4=IPv4Network("198.18.0.0/20"))


@pytest.fixture
def state_file(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"
