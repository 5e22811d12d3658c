"""Which servers are off, as our own commands ask the cloud."""

import asyncio
import json
import threading
import urllib.request
from contextlib import contextmanager

import pytest
from aiohttp import web

from hetzner_emulator.address import Address
from hetzner_emulator.app import create_app
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.config import CloudConfig
from sandbox.api import Api
from sandbox.errors import SandboxError
from sandbox.overview import powered_off

TOKEN = "t" * 64
SERVER = {"server_type": "cx23", "image": "debian-12"}


@contextmanager
def served(app):
    """The application on a port, in a thread, for blocking callers."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    runner = web.AppRunner(app)
    sites = []

    async def begin():
        await runner.setup()
        sites.append(web.TCPSite(runner, "127.0.0.1", 0))
        await sites[0].start()
        ready.set()

    thread = threading.Thread(target=lambda: (loop.run_until_complete(begin()), loop.run_forever()))
    thread.start()
    try:
        assert ready.wait(60)
        port = sites[0]._server.sockets[0].getsockname()[1]
        yield Address(port, TOKEN)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


@pytest.fixture
def site():
    with served(create_app(CloudConfig(tokens={TOKEN: "p"}), RecordsBackend())) as site:
        yield site


def post(site, path, **body):
    request = urllib.request.Request(
        site.endpoint + path, json.dumps(body).encode(), {"Authorization": f"Bearer {TOKEN}"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_servers_that_are_off(site):
    server, _ = (post(site, "/servers", name=name, **SERVER)["server"] for name in "ab")
    post(site, f"/servers/{server['id']}/actions/poweroff")
    assert powered_off(Api(site)) == {str(server["id"])}
    assert powered_off(Api(Address(site.port, "x" * 64))) == set()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"code": "locked"}, "the cloud answers 423, fault injected by the sandbox"),
        ({"code": "unavailable", "raw": True}, "the cloud answers 503, Service Unavailable"),
        ({"drop": "before"}, "the response of the cloud can't be decoded"),
        ({"truncated_body": True}, "the response of the cloud can't be decoded"),
    ],
    ids=["refused", "a page", "cut", "half an answer"],
)
def test_injected_errors_in_our_commands(site, fault, said):
    Api(site).admin("POST", "/faults", {"path": "/servers", **fault})
    with pytest.raises(SandboxError, match=rf"^GET /servers\?\S+: {said}.*'\./dev faults' lists"):
        list(Api(site).list("servers"))
    assert powered_off(Api(site)) == set()
