"""The sandbox's Hetzner Cloud on a loopback port, for tests of ccm.hetzner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.test_utils import TestServer
from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry

from ccm.hetzner.api import ApiMetrics, Budget, HetznerApi
from hetzner_emulator.app import create_app
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.config import CloudConfig

TOKEN = "t" * 64
OTHER_TOKEN = "o" * 64
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class EmulatedCloud:
    """A cloud with its admin calls."""

    server: TestServer
    session: aiohttp.ClientSession

    @property
    def endpoint(self) -> str:
        return str(self.server.make_url("/v1"))

    @property
    def environment(self) -> dict[str, str]:
        return {"HCLOUD_TOKEN": TOKEN, "HCLOUD_ENDPOINT": self.endpoint}

    def api(
        self, *, token: str = TOKEN, registry: CollectorRegistry | None = None, **more: Any
    ) -> HetznerApi:
        return HetznerApi(
            token=lambda: token,
            endpoint=self.endpoint,
            metrics=ApiMetrics(registry or CollectorRegistry()),
            budget=more.pop("budget", None) or Budget(),
            jitter=lambda: 0.0,
            **more,
        )

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A call to the API beside the code under test."""
        async with self.session.request(
            method, f"{self.endpoint}{path}", json=body, headers=BEARER
        ) as answer:
            text = await answer.text()
            assert answer.status < 300, text
            return await answer.json() if text else {}

    async def admin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        url = self.server.make_url(f"/_sandbox{path}")
        async with self.session.request(method, url, json=body, headers=BEARER) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json()

    async def fault(self, **rule: Any) -> None:
        """Let something go wrong."""
        await self.admin("POST", "/faults", rule)

    async def heal(self) -> None:
        await self.admin("DELETE", "/faults")

    async def forget_requests(self) -> None:
        await self.admin("DELETE", "/requests")

    async def counts(self) -> dict[str, int]:
        """Requests by operation since the last look away."""
        return (await self.admin("GET", "/requests/counts"))["operations"]

    async def network(self, name: str = "net") -> int:
        subnet = {"type": "cloud", "ip_range": "10.0.0.0/24", "network_zone": "eu-central"}
        body = {"name": name, "ip_range": "10.0.0.0/8", "subnets": [subnet]}
        return (await self.call("POST", "/networks", body))["network"]["id"]

    async def networks(self) -> list[int]:
        return [network["id"] for network in (await self.call("GET", "/networks"))["networks"]]

    async def add_server(self, name: str, **more: Any) -> dict[str, Any]:
        body = {"name": name, "server_type": "cpx22", "image": "debian-12", "location": "fsn1", **more}
        created = (await self.call("POST", "/servers", body))["server"]
        return (await self.call("GET", f"/servers/{created['id']}"))["server"]


async def start(config: CloudConfig | None = None, middlewares: Sequence[Middleware] = ()) -> EmulatedCloud:
    config = config or CloudConfig(tokens={TOKEN: "default", OTHER_TOKEN: "other"}, rate_limit=0)
    app = create_app(config, RecordsBackend())
    app.middlewares.extend(middlewares)
    server = TestServer(app)
    await server.start_server()
    return EmulatedCloud(server, aiohttp.ClientSession())


async def stop(cloud: EmulatedCloud) -> None:
    await cloud.session.close()
    await cloud.server.close()
