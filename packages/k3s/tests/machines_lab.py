"""Machines with the installer beside their metadata, for tests that need a real cluster."""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from hetzner_machines.probe import available
from sandbox.commands.serve import listening
from sandbox.kubernetes import installer, releases
from sandbox.kubernetes import machine_image as images
from sandbox.site import cache_directory
from tests.prepared import missing
from tests.ranges import claimed_range

INSTALL = "curl -sSf http://169.254.169.254/k3s/install.sh |"
NODE = "--kubelet-arg=cloud-provider=external"
SERVER = (
    f"server --disable-cloud-controller --cluster-cidr 10.244.0.0/16 {NODE} "
    "--disable=traefik,servicelb,local-storage,metrics-server --disable-network-policy"
)
MACHINES = (1, 2, 3)


class CommandFailedError(Exception):
    """A command on a machine ended with another status than 0."""


class Lab:
    """Machines 1, 2 and 3, with addresses 10.0.0.2, 10.0.0.3 and 10.0.0.4."""

    def __init__(self, site: str, state: Path, public_range: IPv4Network, image: Image, version: str) -> None:
        self.install = f"{INSTALL} INSTALL_K3S_VERSION={releases.k3s_name(version)}"
        self.range = public_range
        self._ipv6 = ipv6.of_site(site)
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self.backend = MachinesBackend(site, state, public_range, image)
        self.specs = {number: self._spec(number) for number in MACHINES}
        self._runner = web.AppRunner(self._application(), access_log=None)

    def _spec(self, number: int) -> MachineSpec:
        private = PrivateInterface(1, f"10.0.0.{1 + number}", (), f"86:00:00:00:00:{number:02x}")
        return MachineSpec(
            id=number,
            name=f"m{number}",
            public_ipv4=str(self.range[10 + number]),
            public_ipv6=str(self.ipv6(number)),
            cores=2,
            memory=4.0,
            private=(private,),
        )

    def ipv6(self, number: int) -> IPv6Network:
        """The network of a machine's public IPv6 addresses."""
        return IPv6Network((int(self._ipv6.network_address) + (number << 64), 64))

    def _application(self) -> web.Application:
        app = web.Application()
        k3s = installer.routes(cache_directory(os.environ))
        app.add_routes([*k3s, web.get("/hetzner/v1/{path:.*}", self._metadata)])
        return app

    async def _metadata(self, request: web.Request) -> web.Response:
        spec = next(s for s in self.specs.values() if request.remote in {s.public_ipv4, s.private[0].ip})
        key = self.key.export_public_key().decode().strip()
        texts = {
            "metadata/instance-id": str(spec.id),
            "metadata": f"hostname: {spec.name}\ninstance-id: {spec.id}\npublic-ipv4: {spec.public_ipv4}\n"
            f"local-ipv4: ''\npublic-keys:\n- {key}\nvendor_data: ''\n"
            "network-config: {version: 1, config: []}\n",
        }
        return web.Response(text=texts.get(request.match_info["path"], ""))

    async def start(self) -> None:
        await self.backend.start([], {}, lambda _server, _state: None)
        await self._runner.setup()
        await self.backend.serve_http(listening(self._runner))
        await self.backend.put_network(NetworkSpec(1, "n", "10.0.0.0/8", ("10.0.0.0/24",), ()))
        await asyncio.gather(*(self._boot(spec) for spec in self.specs.values()))

    async def _boot(self, spec: MachineSpec) -> None:
        await self.backend.create_machine(spec)
        await self.backend.power_on(spec.id)

    async def stop(self) -> None:
        await self._runner.cleanup()
        await self.backend.stop()

    async def run(self, number: int, command: str, *, stdin: bytes = b"", seconds: float = 60) -> str:
        """Run a command as soon as the machine answers."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                async with asyncssh.connect(
                    self.specs[number].public_ipv4,
                    username="root",
                    client_keys=[self.key],
                    known_hosts=None,
                    config=None,
                    agent_path=None,
                    connect_timeout=10,  # it is tried again
                ) as connection:
                    done = await connection.run(command, input=stdin, encoding=None, timeout=seconds)
                    break
            except (OSError, asyncssh.Error):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)
        text = ((done.stdout or b"") + (done.stderr or b"")).decode()
        if done.exit_status != 0:
            raise CommandFailedError(text)
        return text.strip()

    async def until(self, number: int, command: str, *, seconds: float = 60) -> str:
        """Run a command until it succeeds."""
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await self.run(number, command)
                except CommandFailedError:
                    await asyncio.sleep(0.1)

    async def install_server(self, agent_token: str) -> str:
        own = (
            f"--node-ip 10.0.0.2 --node-external-ip {self.specs[1].public_ipv4} "
            f"--advertise-address 10.0.0.2 --tls-san {self.specs[1].public_ipv4} --secrets-encryption"
        )
        variables = f"K3S_TOKEN=the-servers K3S_AGENT_TOKEN={agent_token}"
        return await self.run(1, f"{self.install} INSTALL_K3S_EXEC='{SERVER}' {variables} sh -s - {own}")

    async def install_agent(self, number: int, token: str, *flags: str, starting: str = "") -> str:
        """Install an agent; the installer starts it and waits until it has joined, unless a command does."""
        address = f"--node-ip 10.0.0.{1 + number} --node-external-ip {self.specs[number].public_ipv4}"
        own = f"{address} {NODE} {' '.join(flags)}"
        variables = f"K3S_URL=https://10.0.0.2:6443 K3S_TOKEN={token} INSTALL_K3S_SKIP_START={bool(starting)}"
        return await self.run(
            number,
            f"{self.install} {variables.replace('True', 'true')} sh -s - agent {own} && {starting or 'true'}",
        )

    async def ready(self) -> str:
        """Wait until all three Nodes are Ready."""
        nodes = "node/m1 node/m2 node/m3"
        return await self.until(1, f"k3s kubectl wait --for=condition=Ready {nodes} --timeout=1s")


@asynccontextmanager
async def started_lab(cache: Path, version: str, state: Path) -> AsyncIterator[Lab]:
    """A lab whose machines have booted; nothing of it is left afterwards. Skips where no machine can run."""
    if reason := available(state):
        pytest.skip(reason)
    found = images.find(cache)
    if found is None:
        missing("the machine image is not built: ./dev setup builds it", for_machines=True)
    site = secrets.token_hex(3)
    with claimed_range() as public_range:
        running = Lab(site, state, public_range, found, version)
        try:
            await running.start()
            yield running
        finally:
            await running.stop()
            remove_all(site, state)
