"""One running emulator with two ways to talk to it: raw HTTP and the official client."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
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

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDlzUOKiDxUmMbMXZPvFdYWhZPGUBsfIAzmyFAxRPBYN someone"
SERVER = {"name": "x", "server_type": "cx23", "image": "debian-12"}
NOWHERE = {"public_net": {"enable_ipv4": False, "enable_ipv6": False}}
LB = {"name": "lb", "load_balancer_type": "lb11", "location": "fsn1"}
CHECK = {"protocol": "tcp", "port": 30080, "interval": 15, "timeout": 10, "retries": 3}
SERVICE: dict[str, Any] = {"protocol": "tcp", "listen_port": 80, "destination_port": 30080}
SERVICE |= {"proxyprotocol": False, "health_check": CHECK}
RULE = {"direction": "in", "protocol": "tcp", "port": "80", "source_ips": ["0.0.0.0/0"]}
BY_LABEL = {"type": "label_selector", "label_selector": {"selector": "role=web"}}


class Made(dict[str, Any]):
    """An object as the API shows it, and its path."""

    def __init__(self, collection: str, shown: Mapping[str, Any]) -> None:
        super().__init__(shown)
        self.path = f"{collection}/{shown['id']}"


def server_target(server: Made, **more: Any) -> dict[str, Any]:
    return {"type": "server", "server": {"id": server["id"]}, **more}


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

    async def get(self, path: str, **more: Any) -> Any:
        """The object at a path, or the list of objects."""
        return next(iter((await self.ok("GET", path, **more)).values()))

    async def make(self, path: str, **body: Any) -> Made:
        """A new object of a collection."""
        return Made(path, (await self.ok("POST", path, body))[path.rpartition("/")[2].removesuffix("s")])

    async def act(self, path: str, action: str, **body: Any) -> Any:
        """The object after an action on it, which succeeds."""
        answer = await self.ok("POST", f"{path}/actions/{action}", body)
        assert answer["action"]["status"] == "success", answer
        return await self.get(path)

    async def deny(self, expected: str | tuple[int, str] | list[str], path: str, **body: Any) -> None:
        """A POST is refused; see :meth:`expect`."""
        await self.expect(expected, "POST", path, body)

    async def refused(self, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        response = await self.call(method, path, body, **more)
        assert response.status >= 400, await response.text()
        answer = await response.json()
        wrong = (answer["error"]["details"] or {}).get("fields", [])
        reasons = [text for field in wrong for text in field.get("messages", [])]
        return {**answer["error"], "status": response.status, "reasons": reasons}

    async def expect(self, expected: str | tuple[int, str] | list[str], *request: Any, **more: Any) -> None:
        """A request is refused with a code, a status and a code, or with invalid fields."""
        error = await self.refused(*request, **more)
        found: Any = error["code"]
        if isinstance(expected, tuple):
            found = (error["status"], error["code"])
        elif isinstance(expected, list):
            found = [field["name"] for field in error["details"]["fields"]]
        assert found == expected, error

    async def official(self, work: Callable[[hcloud.Client], Any]) -> Any:
        """Run blocking work with the official client in a thread."""
        both = {"api_endpoint": self.endpoint, "api_endpoint_hetzner": self.endpoint}
        client = hcloud.Client(TOKEN, **both, poll_interval=0.02, timeout=60)
        return await asyncio.to_thread(work, client)

    async def make_server(self, name: str = "web", **more: Any) -> Made:
        return await self.make("/servers", **SERVER | {"name": name, "location": "fsn1"} | more)

    async def make_network(self, name: str = "net", *subnets: str, ip_range: str = "10.0.0.0/8") -> Made:
        wanted = [{"type": "cloud", "network_zone": "eu-central", "ip_range": subnet} for subnet in subnets]
        return await self.make("/networks", name=name, ip_range=ip_range, subnets=wanted)


class RecordingBackend(RecordsBackend):
    """Records the calls that change something."""

    failure: Exception | None = None  # raised by calls whose name contains `failing`
    failing = ""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []  # name and arguments of each call that succeeded

    def of(self, name: str) -> list[Any]:
        """The last arguments of the calls of a method."""
        return [arguments[-1] for called, *arguments in self.calls if called == name]

    async def before(self, name: str, *arguments: Any) -> None:
        if self.failure is not None and self.failing in name:
            raise self.failure


def _recorded(name: str) -> Callable[..., Awaitable[Any]]:
    async def method(self: RecordingBackend, *arguments: Any) -> Any:
        await self.before(name, *arguments)
        result = await getattr(RecordsBackend, name)(self, *arguments)
        self.calls.append((name, *arguments))
        return result

    return method


HELD = ("create_machine", "delete_machine", "power_on", "power_off", "attach", "put_load_balancer")
OTHERS = ("detach", "create_image", "delete_image", "put_network", "put_firewalls")
ADDRESSES = ("assign_floating_ip", "unassign_floating_ip")
VOLUMES = ("put_volume", "delete_volume", "attach_volume", "detach_volume")
for _name in (*HELD, *OTHERS, *ADDRESSES, *VOLUMES):
    setattr(RecordingBackend, _name, _recorded(_name))


class Gate(RecordingBackend):
    """Holds changes of machines, routes and load balancers until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened, self.power = asyncio.Event(), asyncio.Event()
        self.power.set()
        self.at_start: dict[int, bool] = {}

    async def start(self, networks: Any, machines: Any, events: Any) -> None:
        await super().start(networks, machines, events)
        self.at_start = {machine.id: on for machine, on in machines.items()}

    @property
    def machines(self) -> dict[int, bool]:
        """The machines by ID, with True for those that are on."""
        machines = dict(self.at_start)
        for name, first, *_ in self.calls:
            if name == "create_machine":
                machines.setdefault(first.id, False)
            elif name in {"power_on", "power_off"}:
                machines[first] = name == "power_on"
            elif name == "delete_machine":
                machines.pop(first, None)
        return machines

    async def before(self, name: str, *arguments: Any) -> None:
        if name in HELD or (name == "put_network" and arguments[0].routes):
            await self.opened.wait()
            if name == "power_on":
                await self.power.wait()
            await super().before(name, *arguments)


Start = Callable[..., Awaitable[Emulator]]
