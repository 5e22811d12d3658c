"""Clients that send no HTTP, too little, or too much."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import resource
import socket
import struct
import subprocess
import sys

import pytest
from aiohttp import web
from cloud_emulator import TOKEN

from hetzner_emulator.app import create_app
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.config import CloudConfig
from hetzner_emulator.errors import ApiError
from hetzner_emulator.http.body import read_json
from hetzner_emulator.http.connections import ShortClientErrors

CROWD = r"""
import resource, socket, sys
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = []
for path in ["/v1/servers"] * 1100 + ["/_sandbox/health"]:
    held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60))
    held[-1].sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = held[-1].recv(4096)
print(answer.decode().split()[1])
"""
SERVER = """
import resource, sys
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
sys.argv[1:] = ["serve", "--no-exports"]
from hetzner_emulator.__main__ import main
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4096, reason="this host's limit is lower")
def test_more_connections_than_the_usual_limit_of_open_files(tmp_path):
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert server.stdout is not None
        port = re.search(r"127\.0\.0\.1:(\d+)", server.stdout.readline())[1]
        command = [sys.executable, "-c", CROWD, port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert (done.stdout, done.stderr) == ("200\n", "")
    assert "out of system resource" not in (tmp_path / "log").read_text()


async def test_a_body_that_does_not_arrive_times_out():
    refused: list[ApiError] = []

    async def answer(request: web.Request) -> web.Response:
        try:
            await read_json(request, 0.05)
        except ApiError as error:
            refused.append(error)
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    reader, writer = await asyncio.open_connection(*runner.addresses[0])
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
    assert (await reader.readuntil(b"ok")).endswith(b"ok")
    writer.close()
    await runner.cleanup()
    assert [(error.code, error.status) for error in refused] == [("timeout", 408)]


@contextlib.asynccontextmanager
async def cloud():
    """A cloud that is served; gives its address."""
    log = logging.getLogger("aiohttp.server")
    short = ShortClientErrors()
    log.addFilter(short)
    runner = web.AppRunner(create_app(CloudConfig(tokens={TOKEN: "p"}), RecordsBackend()), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0]
    finally:
        log.removeFilter(short)
        await runner.cleanup()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /v1/servers HTTP/9.9\r\n\r\n",
        b"GET /v1/servers\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(500)) + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"POST /v1/networks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET http://[/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
async def test_invalid_http_is_refused_and_the_server_goes_on(sent, caplog):
    async with cloud() as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(sent)
        async with asyncio.timeout(60):
            status = (await reader.readline()).split()[1:2]
        assert status in ([b"400"], [b"403"]), status
        writer.close()
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET /_sandbox/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(60):
            assert b"200" in await reader.readline()
        writer.close()
    assert "Traceback" not in caplog.text


async def read_on(address):
    """Wait until a server has read what was sent to it before: it answers what is sent later."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /_sandbox/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(60):
        await reader.readline()
    writer.close()


@pytest.mark.parametrize("path", ["/v1/servers", "/_sandbox/faults"])
@pytest.mark.parametrize(
    "more",
    [b"Content-Length: 9\r\n\r\n{", b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"],
    ids=["left", "encoding"],
)
@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
async def test_an_incomplete_body_is_logged_in_one_line(path, more, reset, caplog):
    caplog.set_level(logging.INFO)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    async with cloud() as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(head.encode() + more)
        await writer.drain()
        if b"gzip" in more:
            async with asyncio.timeout(60):
                assert (await reader.readline()).split()[1] == b"400"
        else:
            await read_on(address)
        if reset:
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    assert "Traceback" not in caplog.text
    assert len(caplog.records) <= 2


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ConnectionResetError("reset by peer"), False),
        (BrokenPipeError(), False),
        (ConnectionAbortedError(), False),
        (ConnectionError("Connection lost"), False),  # aiohttp's, to a handler that waits to write on
        (ConnectionRefusedError("by the handler's own request"), True),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_only_our_own_errors_are_logged_with_a_stack_trace(error, shown, caplog):
    log = logging.getLogger("aiohttp.server.of-a-test")
    short = ShortClientErrors()
    log.addFilter(short)
    caplog.set_level(logging.INFO)

    async def handler(_request):
        raise error

    app = web.Application()
    app.router.add_get("/", handler)
    runner = web.AppRunner(app, access_log=None, logger=log)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection(*runner.addresses[0])
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(60):
            await reader.readline()
        writer.close()
    finally:
        await runner.cleanup()
    assert ("Traceback" in caplog.text) is shown
    assert ("a client closed" in caplog.text) is not shown
