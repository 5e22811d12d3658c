import asyncio
import os
import secrets
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import asyncssh
import pytest
from aiohttp import web

from hetzner_emulator.backend import MachineSpec, NetworkSpec, PrivateInterface
from hetzner_machines import capacity, ipv6
from hetzner_machines.backend import MachinesBackend
from hetzner_machines.cleanup import remove_all
from hetzner_machines.disk import Image
from hetzner_machines.link_local import network_of
from hetzner_machines.probe import available
from sandbox.commands.serve import listening
from sandbox.kubernetes import machine_image as images
from sandbox.kubernetes import toolchain
from sandbox.site import cache_directory
from tests.prepared import missing
from tests.ranges import claimed_range


@dataclass
class World:
    """A site for one test: backend, metadata stand-in, SSH key."""

    site: str
    state: Path
    range: IPv4Network
    image: Image
    key: asyncssh.SSHKey
    user_data: str = ""
    network: NetworkSpec = field(
        default_factory=lambda: NetworkSpec(1, "n", "10.0.0.0/8", ("10.0.0.0/24",), ())
    )
    events: asyncio.Queue = field(default_factory=asyncio.Queue)
    specs: dict[tuple[int | None, str | None], MachineSpec] = field(default_factory=dict)

    def backend(self, **changes) -> MachinesBackend:
        return MachinesBackend(self.site, self.state, self.range, self.image, **changes)

    def machine(self, number: int, *, public: bool = True, private: bool = True, **changes) -> MachineSpec:
        facts = {
            "id": number,
            "name": f"m{number}",
            "public_ipv4": str(self.range[10 + number]) if public else None,
            "public_ipv6": str(self.ipv6(number)) if public else None,
            "cores": 2,
            "memory": 2.0,
            "private": (self.interface(number),) if private else (),
        } | changes
        spec = MachineSpec(**facts)
        for address in [(None, spec.public_ipv4), *((i.network_id, i.ip) for i in spec.private)]:
            self.specs[address] = spec
        return spec

    def ipv6(self, number: int) -> IPv6Network:
        """The network of a machine or load balancer."""
        return IPv6Network((int(ipv6.of_site(self.site).network_address) + (number << 64), 64))

    def interface(self, number: int, *alias_ips: str) -> PrivateInterface:
        return PrivateInterface(1, f"10.0.0.{1 + number}", alias_ips, f"86:00:00:00:00:{number:02x}")

    def event(self, server_id: int, state: str) -> None:
        self.events.put_nowait((server_id, state))

    async def next_event(self) -> tuple[int, str]:
        return await asyncio.wait_for(self.events.get(), 60)

    @asynccontextmanager
    async def metadata(self, backend: MachinesBackend):
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await backend.serve_http(listening(runner))
        try:
            yield
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        network = network_of(request.transport.get_extra_info("socket"))
        spec = self.specs.get((network, request.remote))
        path = request.path.removeprefix("/hetzner/v1/")
        if spec is None:
            return web.Response(status=404)
        public_key = self.key.export_public_key().decode().strip()
        texts = {
            "userdata": self.user_data,
            "metadata/instance-id": str(spec.id),
            "metadata": (
                f"hostname: {spec.name}\ninstance-id: {spec.id}\npublic-ipv4: {spec.public_ipv4}\n"
                f"local-ipv4: ''\npublic-keys:\n- {public_key}\n"
                "vendor_data: ''\nnetwork-config: {version: 1, config: []}\n"
            ),
        }
        return web.Response(text=texts.get(path, ""))

    async def ssh(self, number: int, command: str, *, seconds: float = 60) -> str:
        """Run a command on a machine as soon as it answers."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                async with asyncssh.connect(
                    str(self.range[10 + number]),
                    username="root",
                    client_keys=[self.key],
                    known_hosts=None,
                    config=None,
                    agent_path=None,
                    connect_timeout=10,  # it is tried again
                ) as connection:
                    done = await connection.run(command, timeout=60)
                    return f"{done.stdout}{done.stderr}".strip()
            except (OSError, asyncssh.Error):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.02)


@pytest.fixture(scope="session")
def image() -> Image:
    cache = cache_directory(os.environ)
    built = toolchain.find(cache)
    if built is None:
        missing("the toolchain is not built yet: run './dev up' or './dev test' once", for_machines=True)
    return images.ensure(cache, built, print)


@pytest.fixture
def world(tmp_path, image, monkeypatch):
    reason = available(tmp_path)
    if reason:
        pytest.skip(reason)
    # These machines run no cluster; with the usual reserve they would not fit beside an environment.
    monkeypatch.setattr(capacity, "INSTANCES_OF_A_MACHINE", 6)
    monkeypatch.setattr(capacity, "INSTANCES_OF_A_CONTROL_PLANE", 0)
    monkeypatch.setattr(capacity, "INSTANCES_OF_A_CLUSTER", 0)
    site = secrets.token_hex(3)
    state = tmp_path / "it's a state, of: signs"  # clones may be in such folders
    state.mkdir()
    with claimed_range() as public_range:
        yield World(site, state, public_range, image, asyncssh.generate_private_key("ssh-ed25519"))
        remove_all(site, state)


@pytest.fixture
async def backend(world):
    backend = world.backend()
    await backend.start([], {}, world.event)
    async with world.metadata(backend):
        yield backend
    await backend.stop()
