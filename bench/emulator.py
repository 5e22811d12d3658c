"""How fast the emulated cloud answers, on one core: ``python bench/emulator.py [--seconds 3] [--json]``.

The emulator runs in a process of its own. Requests a second are wall-clock time, which a busy machine spoils;
requests a CPU second are what one core gives when nobody else wants it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web

from sandbox.cloud.app import create_app
from sandbox.cloud.backend import RecordsBackend
from sandbox.cloud.config import CloudConfig

TOKEN = "b" * 64
SERVERS = 50
CONNECTIONS = 8
REQUIRED = 1500
NETWORK = {
    "name": "bench",
    "ip_range": "10.0.0.0/8",
    "subnets": [{"type": "cloud", "network_zone": "eu-central", "ip_range": "10.0.0.0/24"}],
}


async def serve(state_file: str) -> None:
    config = CloudConfig(tokens={TOKEN: "bench"}, state_file=Path(state_file), rate_limit=1_000_000_000)
    runner = web.AppRunner(create_app(config, RecordsBackend()), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def emulator() -> AsyncIterator[tuple[int, int]]:
    """A running emulator: its port and process id."""
    with tempfile.TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--serve", f"{folder}/state.sqlite", stdout=asyncio.subprocess.PIPE
        )
        try:
            port = int(await asyncio.wait_for(process.stdout.readline(), 20))
            yield port, process.pid
        finally:
            process.kill()
            await process.wait()


def request(method: str, path: str, body: object = None) -> bytes:
    """The bytes of a request; a hand-made client leaves the core to the emulator."""
    data = json.dumps(body).encode() if body is not None else b""
    head = f"{method} /v1{path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {TOKEN}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


class Connection:
    """One kept-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, data: bytes) -> bytes:
        """The body of the answer, which must be a success."""
        self._writer.write(data)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        body = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(body.decode())
        return body

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


async def connect(port: int) -> Connection:
    return Connection(*await asyncio.open_connection("127.0.0.1", port))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(port: int, pid: int, requests: list[bytes], seconds: float) -> tuple[float, float]:
    """Answers by second of wall-clock time, and by second of the emulator's CPU time."""
    done = 0
    end = time.perf_counter() + seconds

    async def ask_on(connection: Connection, offset: int) -> None:
        nonlocal done
        turn = offset
        while time.perf_counter() < end:
            await connection.ask(requests[turn % len(requests)])
            turn += 1
            done += 1

    connections = [await connect(port) for _ in range(CONNECTIONS)]
    cpu, begin = cpu_seconds(pid), time.perf_counter()
    await asyncio.gather(*(ask_on(connection, i) for i, connection in enumerate(connections)))
    wall, cpu = time.perf_counter() - begin, cpu_seconds(pid) - cpu
    for connection in connections:
        connection.close()
    return done / wall, done / cpu


async def run(seconds: float) -> dict[str, tuple[float, float]]:
    async with emulator() as (port, pid):
        setup = await connect(port)
        network = json.loads(await setup.ask(request("POST", "/networks", NETWORK)))["network"]["id"]
        ids = []
        for number in range(SERVERS):
            body = {"name": f"s{number}", "server_type": "cx22", "image": "debian-12", "networks": [network]}
            ids.append(json.loads(await setup.ask(request("POST", "/servers", body)))["server"]["id"])
        setup.close()
        cases = {
            "GET /servers/{id}": [request("GET", f"/servers/{identity}") for identity in ids],
            "GET /servers?per_page=50": [request("GET", "/servers?per_page=50")],
            "GET /networks/{id}": [request("GET", f"/networks/{network}")],
            "PUT /servers/{id}": [
                request("PUT", f"/servers/{identity}", {"labels": {"n": str(i)}})
                for i, identity in enumerate(ids)
            ],
        }
        return {name: await measure(port, pid, requests, seconds) for name, requests in cases.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve))
    figures = asyncio.run(run(arguments.seconds))
    if arguments.json:
        rows = {
            name: {"per_second": round(wall), "per_cpu_second": round(cpu)}
            for name, (wall, cpu) in figures.items()
        }
        print(json.dumps(rows))
    else:
        print(f"{'operation':28} {'a second':>10} {'a CPU second':>14}")
        for name, (wall, cpu) in figures.items():
            print(f"{name:28} {wall:10.0f} {cpu:14.0f}")
    return 0 if figures["GET /servers/{id}"][1] >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
