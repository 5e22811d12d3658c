"""Machines without an emulator, for tests of the backend and of k3s."""

import asyncio
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import asyncssh
import pytest
from aiohttp import web

from hetzner_emulator.backend import MachineSpec, NetworkSpec, PrivateInterface
from hetzner_machines import ipv6
from hetzner_machines.backend import MachinesBackend
from hetzner_machines.cleanup import remove_all
from hetzner_machines.disk import Image
from hetzner_machines.link_local import network_of
from hetzner_machines.probe import available
from sandbox.commands.serve import listening
from tests.ranges import claimed_range


@dataclass
class MachineSite:
    """A site of machines for tests: backend, metadata service, SSH key."""

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
    async def metadata(self, backend: MachinesBackend, more: Iterable[web.AbstractRouteDef] = ()):
        """Serve the machines' metadata, and more beside it."""
        app = web.Application()
        app.add_routes([*more, web.get("/{path:.*}", self._answer)])
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
        """The output of a command on a machine."""
        done = await self.run(number, command, seconds=seconds)
        return f"{done.stdout}{done.stderr}".strip()

    async def run(
        self, number: int, command: str, *, stdin: str = "", seconds: float = 60
    ) -> asyncssh.SSHCompletedProcess:
        """The result of a command on a machine, as soon as the machine answers."""
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
                    return await connection.run(command, input=stdin, timeout=max(seconds, 60))
            except (OSError, asyncssh.Error):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.02)


@contextmanager
def machine_site(state: Path, image: Image) -> Iterator[MachineSite]:
    """A site that is removed afterwards. Skips the test where no machine can run."""
    if reason := available(state):
        pytest.skip(reason)
    site = secrets.token_hex(3)
    with claimed_range() as public_range:
        try:
            yield MachineSite(site, state, public_range, image, asyncssh.generate_private_key("ssh-ed25519"))
        finally:
            remove_all(site, state)
