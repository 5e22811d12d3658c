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
from tests.child_processes import run

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
        command = [sys.executable, "-c", SERVER]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert server.stdout is not None
        port = re.search(r"127\.0\.0\.1:(\d+)", server.stdout.readline())[1]
        done = run([sys.executable, "-c", CROWD, port], timeout=120)
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
    """A served cloud; yields its address."""
    log, short = logging.getLogger("aiohttp.server"), ShortClientErrors()
    log.addFilter(short)
    runner = web.AppRunner(create_app(CloudConfig(tokens={TOKEN: "p"}), RecordsBackend()), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0]
    finally:
        log.removeFilter(short)
        await runner.cleanup()


async def status(address, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(sent)
    async with asyncio.timeout(60):
        line = await reader.readline()
    writer.close()
    return line.split()[1]


HEALTH = b"GET /_sandbox/health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /v1/servers\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET http://[/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
async def test_invalid_http_is_refused_and_the_server_goes_on(sent, caplog):
    async with cloud() as address:
        assert await status(address, sent) in {b"400", b"403"}
        assert await status(address, HEALTH) == b"200"
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("path", ["/v1/servers", "/_sandbox/faults"])
async def test_an_incomplete_body_is_logged_in_one_line(path, caplog):
    caplog.set_level(logging.INFO)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    encoded = b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"
    async with cloud() as address:
        assert await status(address, head + encoded) == b"400"
        _, writer = await asyncio.open_connection(*address)
        writer.write(head + b"Content-Length: 9\r\n\r\n{")
        await writer.drain()
        await status(address, HEALTH)  # by then the server has read the incomplete request
        reset = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    assert "Traceback" not in caplog.text
    assert len(caplog.records) <= 3


def test_only_errors_of_clients_are_logged_without_a_stack_trace():
    def has_trace(error):
        record = logging.makeLogRecord({"exc_info": (type(error), error, None)})
        assert ShortClientErrors().filter(record)
        return record.exc_info is not None

    assert not has_trace(ConnectionResetError("reset by peer"))
    assert not has_trace(ConnectionError("Connection lost"))
    assert has_trace(ConnectionRefusedError("by the handler's own request"))
    assert has_trace(ValueError("a bug"))
