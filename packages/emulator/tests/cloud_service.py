"""An emulated cloud in another thread, for clients that use HTTP."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from aiohttp import web

from hetzner_emulator.app import create_app
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.config import CloudConfig

TOKEN = "t" * 64
START_SECONDS = 20


class Service(requests.Session):
    """A client of the running cloud."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.writes = 0  # how many requests were sent that may change something
        self.base = base  # its address, without a path
        self.headers["Authorization"] = f"Bearer {TOKEN}"

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        self.writes += request.method != "GET"
        return super().send(request, **options)


async def _serve(ports: queue.Queue[int], stopping: threading.Event) -> None:
    runner = web.AppRunner(
        create_app(CloudConfig(tokens={TOKEN: "judged"}, rate_limit=0), RecordsBackend()), access_log=None
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    ports.put(runner.addresses[0][1])
    await asyncio.to_thread(stopping.wait)
    await runner.cleanup()


@contextmanager
def serving() -> Iterator[Service]:
    """A cloud for the time of a block."""
    ports: queue.Queue[int] = queue.Queue()
    stopping = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(ports, stopping)))
    thread.start()
    try:
        with Service(f"http://127.0.0.1:{ports.get(timeout=START_SECONDS)}") as service:
            yield service
    finally:
        stopping.set()
        thread.join(START_SECONDS)
