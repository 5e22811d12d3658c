"""One running emulator with two ways to talk to it: raw HTTP and the official client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import hcloud
from aiohttp import ClientResponse, ClientSession, web
from aiohttp.test_utils import TestServer

from hetzner_emulator.app import CLOUD
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.cloud import Cloud

TOKEN = "t" * 64
OTHER_TOKEN = "o" * 64
READ_TOKEN = "r" * 64
TOKENS = {TOKEN: "default", OTHER_TOKEN: "other", READ_TOKEN: "default"}


class Emulator:
    """One running emulator with two ways to talk to it: raw HTTP and the official client."""

    def __init__(self, app: web.Application, server: TestServer, session: ClientSession) -> None:
        self.app, self.server, self.session = app, server, session
        self.cloud: Cloud = app[CLOUD]

    @property
    def endpoint(self) -> str:
        return str(self.server.make_url("/v1"))

    async def call(
        self, method: str, path: str, body: Any = None, *, token: str | None = TOKEN, **more: Any
    ) -> ClientResponse:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = self.server.make_url("/v1" + path) if not path.startswith("/_") else self.server.make_url(path)
        response = await self.session.request(method, url, json=body, headers=headers, **more)
        await response.read()
        return response

    async def ok(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        response = await self.call(method, path, body, **more)
        text = await response.text()
        assert response.status < 300, text
        return await response.json() if text else None

    async def refused(self, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        response = await self.call(method, path, body, **more)
        assert response.status >= 400, await response.text()
        answer = await response.json()
        wrong = (answer["error"]["details"] or {}).get("fields", [])
        reasons = [text for field in wrong for text in field.get("messages", [])]
        return {**answer["error"], "status": response.status, "reasons": reasons}

    async def official(self, work: Callable[[hcloud.Client], Any]) -> Any:
        """Run blocking work with the official client in a thread."""
        both = {"api_endpoint": self.endpoint, "api_endpoint_hetzner": self.endpoint}
        client = hcloud.Client(TOKEN, **both, poll_interval=0.02, timeout=60)
        return await asyncio.to_thread(work, client)

    async def make_server(self, name: str = "web", **more: Any) -> dict[str, Any]:
        body = {"name": name, "server_type": "cx23", "image": "debian-12", "location": "fsn1", **more}
        return (await self.ok("POST", "/servers", body))["server"]

    async def make_network(
        self, name: str = "net", *subnets: str, ip_range: str = "10.0.0.0/8"
    ) -> dict[str, Any]:
        wanted = [{"type": "cloud", "network_zone": "eu-central", "ip_range": subnet} for subnet in subnets]
        answer = await self.ok("POST", "/networks", {"name": name, "ip_range": ip_range, "subnets": wanted})
        return answer["network"]


class Gate(RecordsBackend):
    """Holds every change back until it is opened, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()
        self.failure: Exception | None = None
        self.machines: dict[int, bool] = {}
        self.power = asyncio.Event()
        self.power.set()

    async def _pass(self) -> None:
        await self.opened.wait()
        if self.failure is not None:
            raise self.failure

    async def start(self, networks: Any, machines: Any, events: Any) -> None:
        await super().start(networks, machines, events)
        self.machines = {machine.id: on for machine, on in machines.items()}

    async def create_machine(self, machine: Any) -> None:
        await self._pass()
        self.machines.setdefault(machine.id, False)

    async def power_on(self, server_id: int) -> None:
        await self._pass()
        await self.power.wait()
        self.machines[server_id] = True

    async def power_off(self, server_id: int) -> None:
        await self._pass()
        self.machines[server_id] = False

    async def delete_machine(self, server_id: int) -> None:
        await self._pass()
        self.machines.pop(server_id, None)

    async def attach(self, server_id: int, interface: Any, network: Any) -> None:
        await self._pass()

    async def put_network(self, network: Any) -> None:
        if network.routes:
            await self._pass()

    async def put_load_balancer(self, load_balancer: Any) -> None:
        await self._pass()
        await super().put_load_balancer(load_balancer)


Start = Callable[..., Awaitable[Emulator]]
