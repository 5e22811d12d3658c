"""Machines with the installer beside their metadata, for tests that need a real cluster."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hetzner_emulator.backend import MachineSpec
from sandbox.kubernetes import installer, releases
from sandbox.kubernetes import machine_image as images
from sandbox.site import cache_directory
from tests.machine_site import MachineSite, machine_site
from tests.prepared import missing

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

    def __init__(self, site: MachineSite, version: str) -> None:
        self.install = f"{INSTALL} INSTALL_K3S_VERSION={releases.k3s_name(version)}"
        self.backend = site.backend()
        self._site = site
        self._specs = {number: site.machine(number, memory=4.0) for number in MACHINES}

    @asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """Boot the machines, and serve their metadata and the installer."""
        try:
            await self.backend.start([], {}, self._site.event)
            async with self._site.metadata(self.backend, installer.routes(cache_directory(os.environ))):
                await self.backend.put_network(self._site.network)
                await asyncio.gather(*(self._boot(spec) for spec in self._specs.values()))
                yield
        finally:
            await self.backend.stop()

    async def _boot(self, spec: MachineSpec) -> None:
        await self.backend.create_machine(spec)
        await self.backend.power_on(spec.id)

    async def run(self, number: int, command: str, *, stdin: str = "", seconds: float = 60) -> str:
        """Run a command as soon as the machine answers."""
        done = await self._site.run(number, command, stdin=stdin, seconds=seconds)
        text = f"{done.stdout}{done.stderr}"
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
            f"--node-ip 10.0.0.2 --node-external-ip {self._specs[1].public_ipv4} "
            f"--advertise-address 10.0.0.2 --tls-san {self._specs[1].public_ipv4} --secrets-encryption"
        )
        variables = f"K3S_TOKEN=the-servers K3S_AGENT_TOKEN={agent_token}"
        return await self.run(1, f"{self.install} INSTALL_K3S_EXEC='{SERVER}' {variables} sh -s - {own}")

    async def install_agent(self, number: int, token: str, *flags: str, starting: str = "") -> str:
        """Install an agent; the installer starts it and waits until it has joined, unless a command does."""
        address = f"--node-ip 10.0.0.{1 + number} --node-external-ip {self._specs[number].public_ipv4}"
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
    found = images.find(cache)
    if found is None:
        missing("the machine image is not built: ./dev setup builds it", for_machines=True)
    with machine_site(state, found) as site:
        lab = Lab(site, version)
        async with lab.started():
            yield lab
