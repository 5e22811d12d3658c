"""A Hetzner Cloud that tests reach over HTTP."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import requests
from aiohttp import web

from hetzner_emulator.app import create_app
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.config import CloudConfig

TOKEN = "x" * 64


@dataclass(frozen=True)
class EmulatedCloud:
    """A Hetzner Cloud of a test's own, in a thread."""

    endpoint: str

    def get(self, path: str, **parameters: Any) -> Any:
        return self._call("GET", self.endpoint + path, params=parameters)

    def names(self, collection: str) -> list[str]:
        return sorted(item["name"] for item in self.get(f"/{collection}", per_page=50)[collection])

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        return self._call(method, self.endpoint.removesuffix("/v1") + "/_sandbox" + path, json=body)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        return self._call(method, self.endpoint + path, json=body)

    @staticmethod
    def _call(method: str, url: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = requests.request(method, url, headers=headers, timeout=60, **more)
        answer.raise_for_status()
        return answer.json() if answer.content else None


def serve(actions: str) -> Iterator[EmulatedCloud]:
    """One whose actions are `instant` or `realistic`."""
    loop = asyncio.new_event_loop()
    config = CloudConfig(tokens={TOKEN: "test"}, rate_limit=0, actions=actions)
    runner = web.AppRunner(create_app(config, RecordsBackend()))
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
    _, port = runner.addresses[0]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield EmulatedCloud(f"http://127.0.0.1:{port}/v1")
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(runner.cleanup())
        loop.close()
