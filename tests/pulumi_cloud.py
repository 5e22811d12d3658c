"""A Hetzner Cloud for programs that the Pulumi CLI runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from aiohttp import web

from hetzner_emulator.app import create_app
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.config import CloudConfig
from tests.pulumi_lab import ROOT, TOKEN, Lab


@dataclass(frozen=True)
class EmulatedCloud:
    """A Hetzner Cloud of a test's own, in a thread."""

    endpoint: str

    def get(self, path: str, **parameters: Any) -> Any:
        return self._call("GET", self.endpoint + path, params=parameters)

    def names(self, collection: str) -> list[str]:
        return sorted(item["name"] for item in self.get(f"/{collection}", per_page=50)[collection])

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """Make an admin call."""
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


def lab_at(
    folder: Path, cloud: EmulatedCloud, kind: type[Lab] = Lab, *, refresh: bool = False, **environment: str
) -> Lab:
    """A project that polls the actions of an emulated cloud often, and can import this repository."""
    lab = kind(folder, {"HCLOUD_ENDPOINT": cloud.endpoint, "PYTHONPATH": str(ROOT), **environment})
    options = "options:\n  refresh: always\n" if refresh else ""
    polling = "config:\n  hcloud:pollFunction: constant\n  hcloud:pollInterval: 50ms\n"
    lab.write("Pulumi.yaml", f"name: lab\nruntime: python\n{options}{polling}")
    return lab


@pytest.fixture
def cloud() -> Iterator[EmulatedCloud]:
    yield from serve("instant")


@pytest.fixture
def slow_cloud() -> Iterator[EmulatedCloud]:
    yield from serve("realistic")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def hetzner(tmp_path: Path, cloud: EmulatedCloud) -> Lab:
    return lab_at(tmp_path, cloud)
