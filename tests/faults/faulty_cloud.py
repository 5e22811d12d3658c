"""The emulated cloud on a loopback port, with the hand that changes its lab."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
from aiohttp.typedefs import Middleware

from bench.lab.http import served
from hetzner_emulator.app import CLOUD, create_app
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.config import CloudConfig

TOKEN, FOREIGN_TOKEN = "t" * 64, "f" * 64
PROJECT = "lab"
_QUOTA = 3_600_000  # requests an hour: what a 429 takes away has come back in a moment


class LabError(Exception):
    """The lab itself failed, so nothing was found out."""


@dataclass(frozen=True)
class EmulatedCloud:
    """A cloud with its admin calls, which no fault ever hits.

    Attributes:
        base: Its address, without a path.
        session: For our own requests.
        cloud: What answers.
    """

    base: str
    session: aiohttp.ClientSession
    cloud: Cloud

    @property
    def endpoint(self) -> str:
        """What goes into HCLOUD_ENDPOINT."""
        return f"{self.base}/v1"

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A request to the API beside the CCM's.

        Raises:
            LabError: It was refused.
        """
        return await self._send(method, f"{self.endpoint}{path}", json=body)

    async def admin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """An admin call.

        Raises:
            LabError: It was refused.
        """
        return await self._send(method, f"{self.base}/_sandbox{path}", json=body)

    async def _send(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with self.session.request(method, url, headers=headers, **options) as answer:
            text = await answer.text()
            if answer.status >= 300:
                raise LabError(f"{method} {url}: {answer.status} {text}")
            return await answer.json() if text else {}

    def state(self, *kinds: str) -> list[list[dict[str, Any]]]:
        """All objects of each kind in the CCM's project, looked up behind the API and without a request."""
        kept = self.cloud.store.export()
        found: list[list[dict[str, Any]]] = [msgspec.to_builtins(kept.get(kind, [])) for kind in kinds]
        return [[one for one in records if one["project"] == PROJECT] for records in found]

    async def add_network(self, name: str) -> int:
        """A network, and its id."""
        subnet = {"type": "cloud", "ip_range": "10.0.0.0/24", "network_zone": "eu-central"}
        body = {"name": name, "ip_range": "10.0.0.0/8", "subnets": [subnet]}
        return (await self.call("POST", "/networks", body))["network"]["id"]

    async def add_server(self, name: str, network: int) -> dict[str, Any]:
        """A running server in a network."""
        body = {
            "name": name,
            "server_type": "cpx22",
            "image": "debian-12",
            "location": "fsn1",
            "networks": [network],
        }
        made = (await self.call("POST", "/servers", body))["server"]
        return (await self.call("GET", f"/servers/{made['id']}"))["server"]


@asynccontextmanager
async def open_emulated_cloud(*middlewares: Middleware) -> AsyncIterator[EmulatedCloud]:
    """An emulated cloud with two projects.

    Args:
        middlewares: Put around its application; they see the CCM's requests first.
    """
    config = CloudConfig(tokens={TOKEN: PROJECT, FOREIGN_TOKEN: "elsewhere"}, rate_limit=_QUOTA)
    app = create_app(config, RecordsBackend())
    app.middlewares.extend(middlewares)
    async with served(app) as base, aiohttp.ClientSession() as session:
        yield EmulatedCloud(base, session, app[CLOUD])
