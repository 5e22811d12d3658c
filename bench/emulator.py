"""How fast the emulated cloud answers, on one core, and under load: ``./dev bench emulator [--seconds 3]``.

It runs in a process of its own, with its state in a file. Judged is the CPU time of one answer, which is what
one core gives when nobody else wants it; requests a second of wall-clock time, which a busy machine spoils,
stand below the table.

Under load, 200 clients ask at the same time, 100,000 requests in all (``--clients``, ``--requests``):
nine read for one that writes. Judged is that every answer is a success, and how much memory the second
half takes: in the first, the log of requests fills up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from bench.lab.cloud import TOKEN, Cloud, running_cloud
from bench.lab.processes import TICK, cpu_seconds, resident_mib
from bench.lab.report import BenchError, Row, main

SERVERS = 50
CONNECTIONS = 8
MOST_MS = 1000 / 8000  # of CPU: 10,000 answers a second are wanted, and the slowest machine so far gave 8,980
MOST_GROWTH_MIB = 8.0
WRITES_EVERY = 10
JUDGED = "GET /servers/{id}"


def request(method: str, path: str, body: object = None) -> bytes:
    """The bytes of a request; a hand-made client leaves the core to the emulator."""
    data = json.dumps(body).encode() if body is not None else b""
    head = f"{method} /v1{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> None:
    """One request on a connection that is kept.

    Raises:
        BenchError: The answer is no success.
    """
    writer.write(data)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
    body = await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 2"):
        raise BenchError(body.decode())


async def answers(cloud: Cloud, requests: list[bytes], seconds: float) -> tuple[float, float]:
    """Answers by second of wall-clock time, and by second of the emulator's CPU time."""
    done, port = 0, urlsplit(cloud.base).port
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
    cpu, begin = cpu_seconds(cloud.pid), time.perf_counter()

    async def ask_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn: int) -> None:
        nonlocal done
        while time.perf_counter() < begin + seconds:
            await ask(reader, writer, requests[turn % len(requests)])
            turn += 1
            done += 1

    await asyncio.gather(*(ask_on(*connection, turn) for turn, connection in enumerate(connections)))
    wall, cpu = time.perf_counter() - begin, cpu_seconds(cloud.pid) - cpu
    for _, writer in connections:
        writer.close()
    return done / wall, done / max(cpu, TICK)


def cases(cloud: Cloud) -> dict[str, list[bytes]]:
    """What is asked, by operation: about servers that are made for it, in a network."""
    ids = [server.id for server in cloud.add_servers([f"s{number}" for number in range(SERVERS)])]
    return {
        JUDGED: [request("GET", f"/servers/{identity}") for identity in ids],
        "GET /servers?per_page=50": [request("GET", "/servers?per_page=50")],
        "GET /networks/{id}": [request("GET", f"/networks/{cloud.network()['id']}")],
        "PUT /servers/{id}": [
            request("PUT", f"/servers/{identity}", {"labels": {"n": str(number)}})
            for number, identity in enumerate(ids)
        ],
    }


async def load(cloud: Cloud, ids: list[int], clients: int, total: int) -> tuple[float, float]:
    """Resident memory in MiB, after half of the requests and after all.

    Raises:
        BenchError: An answer is no success.
    """
    port, left = urlsplit(cloud.base).port, [0]
    reads = [request("GET", f"/servers/{identity}") for identity in ids]
    writes = [request("PUT", f"/servers/{identity}", {"labels": {"n": "x"}}) for identity in ids]

    async def ask_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while left[0] > 0:
            left[0] -= 1
            kind = reads if left[0] % WRITES_EVERY else writes
            await ask(reader, writer, kind[left[0] % len(kind)])

    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(clients)]
    memory = []
    for half in (total // 2, total - total // 2):
        left[0] = half
        await asyncio.gather(*(ask_on(*connection) for connection in connections))
        memory.append(resident_mib(cloud.pid))
    for _, writer in connections:
        writer.close()
    return memory[0], memory[1]


async def measure(arguments: argparse.Namespace) -> list[Row]:
    """All rows."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, running_cloud(Path(folder), kept=True) as cloud:
        for operation, requests in (await asyncio.to_thread(cases, cloud)).items():
            wall, cpu = await answers(cloud, requests, arguments.seconds)
            bound = MOST_MS if operation == JUDGED else None
            note = f"{wall:.0f} a second, {cpu:.0f} a second of CPU"
            rows.append(Row(f"{operation}, CPU", 1000 / cpu, bound, "ms", note=note))
        ids = [server["id"] for server in cloud.call("GET", "/servers?per_page=50")["servers"]]
        half, end = await load(cloud, ids, arguments.clients, arguments.requests)
        asked = f"{arguments.clients} clients, {arguments.requests} requests, no error"
        note = f"{asked}; {half:.1f} MiB, then {end:.1f} MiB"
        rows.append(Row("memory, second half of the load", end - half, MOST_GROWTH_MIB, "MiB", note=note))
    return rows


def options(parser: argparse.ArgumentParser) -> None:
    """Arguments of this comparison."""
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row (default: 3)")
    parser.add_argument(
        "--clients", type=int, default=200, help="at the same time, under load (default: 200)"
    )
    parser.add_argument("--requests", type=int, default=100_000, help="of all clients (default: 100000)")


if __name__ == "__main__":
    sys.exit(main("The emulated cloud", __doc__, measure, options, peer=False))
