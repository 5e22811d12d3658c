"""The emulated cloud in a process of its own, and a small client for it.

Requests of a comparison itself have the user agent :data:`US`, so the log can be asked for all others.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import requests

from bench.lab.http import served
from bench.lab.processes import child
from hetzner_emulator.app import create_app
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.config import CloudConfig

TOKEN = "b" * 64
US = "bench"
LOCATION = "fsn1"
NETWORK = "bench"
POLLS = "GET /actions"
READY_SECONDS = 20.0
LIMITS = {"servers": 20_000, "primary_ips": 50_000, "network_members": 20_000}
UNREACHED_LIMIT = 1_000_000_000
_CLIENTS = 4


@dataclass(frozen=True)
class Server:
    """A server as far as a comparison needs it."""

    id: int  # of the server
    name: str  # of the server and its Node
    private_ip: str  # in the network; empty if it is in none
    public_ip: str  # its IPv4 address


class Cloud:
    """A running cloud, at ``base``."""

    def __init__(self, base: str, pid: int = 0) -> None:
        self.base, self.pid = base, pid
        self._session = requests.Session()
        self._session.headers.update({"Authorization": f"Bearer {TOKEN}", "User-Agent": US})

    @property
    def endpoint(self) -> str:
        """What goes into HCLOUD_ENDPOINT."""
        return f"{self.base}/v1"

    def call(self, method: str, path: str, body: object = None) -> Any:
        """A call to the API beside the code under test; raises requests.HTTPError."""
        return self._ask(method, f"/v1{path}", body)

    def admin(self, method: str, path: str, body: object = None) -> Any:
        """A call to the emulated cloud's own controls; raises requests.HTTPError."""
        return self._ask(method, f"/_sandbox{path}", body)

    def counts(self) -> dict[str, int]:
        """Others' requests by operation since :meth:`forget`."""
        return self.admin("GET", f"/requests/counts?user_agent=[!{US[0]}]*")["operations"]

    def requests(self) -> list[dict[str, Any]]:
        """Others' requests since :meth:`forget`, newest first."""
        return self.admin("GET", f"/requests?limit=50000&user_agent=[!{US[0]}]*")["requests"]

    def forget(self) -> None:
        """Reset the counts."""
        self.admin("DELETE", "/requests")

    def actions(self, mode: str) -> None:
        """How long actions take: instant, realistic or slow."""
        self.admin("PUT", "/settings", {"actions": mode})

    def load_balancers(self) -> list[dict[str, Any]]:
        """All of them, at most 50."""
        return self.call("GET", "/load_balancers?per_page=50")["load_balancers"]

    def network(self) -> dict[str, Any]:
        """The network; it is made if there is none."""
        found = self.call("GET", f"/networks?name={NETWORK}")["networks"]
        if found:
            return found[0]
        subnet = {"type": "cloud", "network_zone": "eu-central", "ip_range": "10.0.0.0/16"}
        body = {"name": NETWORK, "ip_range": "10.0.0.0/8", "subnets": [subnet]}
        return self.call("POST", "/networks", body)["network"]

    def add_servers(self, names: list[str], *, private: bool = True) -> list[Server]:
        """Servers that run."""
        networks = [self.network()["id"]] if private else []

        def add(name: str) -> int:
            body = {
                "name": name,
                "server_type": "cpx22",
                "image": "debian-12",
                "location": LOCATION,
                "networks": networks,
            }
            return self.call("POST", "/servers", body)["server"]["id"]

        with ThreadPoolExecutor(_CLIENTS) as pool:
            wanted = set(pool.map(add, names))
        return [server for server in self.servers() if server.id in wanted]

    def servers(self) -> list[Server]:
        """All servers, by name."""
        found: list[Server] = []
        page: int | None = 1
        while page is not None:
            answer = self.call("GET", f"/servers?per_page=50&page={page}")
            found.extend(map(_server, answer["servers"]))
            page = answer["meta"]["pagination"]["next_page"]
        return sorted(found, key=lambda server: server.name)

    def _ask(self, method: str, path: str, body: Any) -> Any:
        answer = self._session.request(method, self.base + path, json=body, timeout=30)
        answer.raise_for_status()
        return answer.json() if answer.content else {}


def _server(item: dict[str, Any]) -> Server:
    private = item["private_net"][0]["ip"] if item["private_net"] else ""
    return Server(item["id"], item["name"], private, item["public_net"]["ipv4"]["ip"])


@contextmanager
def running_cloud(directory: Path, *, kept: bool = False) -> Iterator[Cloud]:
    """A cloud for the time of a block.

    ``kept`` lets it do what one of ``./dev up`` does with each request, which costs time: keep its state in a
    file, and count requests against a limit.
    """
    command = [sys.executable, "-m", __spec__.name, *([str(directory / "state.sqlite")] if kept else [])]
    with child(command, log=directory / "cloud.log", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if not line:
            raise RuntimeError((directory / "cloud.log").read_text()[-2000:])
        yield Cloud(line, process.pid)


async def _serve(state_file: Path | None) -> None:
    config = CloudConfig(
        tokens={TOKEN: "bench"},
        state_file=state_file,
        rate_limit=0 if state_file is None else UNREACHED_LIMIT,
        limits=LIMITS,
        public_ipv4=IPv4Network("198.18.0.0/15"),
    )
    async with served(create_app(config, RecordsBackend())) as address:
        print(address, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]) if sys.argv[1:] else None))
