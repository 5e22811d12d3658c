"""Speed of the emulated cloud, on one core and under load: ``./dev bench emulator [--answers N]``.

The emulated cloud runs in its own process and stores its state in a file. The limit applies to the CPU time
of one response. The requests per second, which depend on the load of the machine, are below the table.

Under load, 200 clients (``--clients``) send 100,000 requests in total (``--requests``). One of ten requests
is a change. The limits apply to the errors, which must be 0, and to the memory that the second half of the
requests adds. The first half fills the log of requests.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from bench.lab.cloud import TOKEN, Cloud, running_cloud
from bench.lab.processes import RESIDENT, TICK, cpu_seconds, memory_mib
from bench.lab.report import Row, main

SERVERS = 50
CONNECTIONS = 8
MOST_MS = 1000 / 8000  # of CPU: 10,000 answers a second are wanted, and the slowest machine so far gave 8,980
MOST_GROWTH_MIB = 8.0
JUDGED = "GET /servers/{id}"
Request = tuple[str, str, Any]


def cases(cloud: Cloud, ids: list[int]) -> dict[str, list[Request]]:
    """What is asked, by operation."""
    return {
        JUDGED: [("GET", f"/servers/{identity}", None) for identity in ids],
        "GET /servers?per_page=50": [("GET", "/servers?per_page=50", None)],
        "GET /networks/{id}": [("GET", f"/networks/{cloud.network()['id']}", None)],
        "PUT /servers/{id}": [("PUT", f"/servers/{identity}", {"labels": {"n": "x"}}) for identity in ids],
    }


async def ask(cloud: Cloud, requests: list[Request], clients: int, total: int) -> tuple[float, float]:
    """Answers by second of wall-clock time, and by second of the emulator's CPU time."""
    every = itertools.islice(itertools.cycle(requests), total)
    cpu, begin = cpu_seconds(cloud.pid), time.perf_counter()

    async def client(session: aiohttp.ClientSession) -> None:
        for method, path, body in every:
            async with session.request(method, f"/v1{path}", json=body) as answer:
                await answer.read()

    async with aiohttp.ClientSession(
        cloud.base,
        headers={"Authorization": f"Bearer {TOKEN}"},
        raise_for_status=True,
        connector=aiohttp.TCPConnector(limit=0),
    ) as session:
        await asyncio.gather(*(client(session) for _ in range(clients)))
    return total / (time.perf_counter() - begin), total / max(cpu_seconds(cloud.pid) - cpu, TICK)


async def measure(arguments: argparse.Namespace) -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as folder, running_cloud(Path(folder), kept=True) as cloud:
        ids = [server.id for server in cloud.add_servers([f"s{number}" for number in range(SERVERS)])]
        asked_for = cases(cloud, ids)
        for operation, requests in asked_for.items():
            wall, cpu = await ask(cloud, requests, CONNECTIONS, arguments.answers)
            bound = MOST_MS if operation == JUDGED else None
            note = f"{wall:.0f} a second, {cpu:.0f} a second of CPU"
            rows.append(Row(f"{operation}, CPU", 1000 / cpu, bound, "ms", note=note))
        mixed = [*asked_for[JUDGED] * 9, *asked_for["PUT /servers/{id}"]]
        memory = []
        for _ in range(2):
            await ask(cloud, mixed, arguments.clients, arguments.requests // 2)
            memory.append(memory_mib(cloud.pid, RESIDENT))
        half, end = memory
        asked = f"{arguments.clients} clients, {arguments.requests} requests, no error"
        note = f"{asked}; {half:.1f} MiB, then {end:.1f} MiB"
        rows.append(Row("memory, second half of the load", end - half, MOST_GROWTH_MIB, "MiB", note=note))
    return rows


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--answers", type=int, default=20_000, help="the number of responses for each row (default: 20000)"
    )
    parser.add_argument(
        "--clients", type=int, default=200, help="the number of clients under load (default: 200)"
    )
    parser.add_argument(
        "--requests",
        type=int,
        default=100_000,
        help="the number of requests of all clients (default: 100000)",
    )


if __name__ == "__main__":
    sys.exit(main("The emulated cloud", __doc__, measure, options, peer=False))
