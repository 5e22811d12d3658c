"""SIGKILL after every single request of a load balancer's creation, with the CCM as a process of its own.

There is a Service, and a process starts. Right after its n-th request has taken effect in the cloud, before
the answer is out, it is killed; a new one takes over. This for every n, each in a cloud of its own.
"""

import asyncio
import os
import signal
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from emulated_cloud import TOKEN, EmulatedCloud

from ccm.kube.errors import NotFound
from ccm.kube.protocol import Transport
from ccm.testing.memory_transport import MemoryTransport
from tests.faults import facts
from tests.faults.api_server import serve_memory
from tests.faults.faulty_cloud import LabError, open_emulated_cloud, state
from tests.faults.lab import NETWORK, NotConverged, environment
from tests.faults.objects import NODES, SERVICES, node, service
from tests.faults.operations import RICH, RICH_SERVICE

ROOT = Path(__file__).resolve().parents[2]
NODES_IN_THE_LAB = 3
NEVER = 0
AT_ONCE = 3  # the start of a process is all work and no waiting
SECONDS = 120.0  # that a process may take to start and to make everything right
POLL = 0.02
SETTLED = 0.3
THEIRS = "load balancer theirs of somebody else"


Cluster = tuple[Transport, Path]  # an API server, and a kubeconfig for it
OpenCluster = Callable[[], AbstractAsyncContextManager[Cluster]]


@dataclass(frozen=True)
class Kill:
    call: int  # after which of the process' requests, counted from 1
    request: str  # which that was
    problem: str = ""  # what is wrong at the end; empty = nothing doubled, lost, or left behind


@dataclass
class Killer:
    """Stands before the cloud's answers, counts requests, and kills a process after the n-th."""

    requests: list[str] = field(default_factory=list)  # since the last arming
    _kill_after: int = 0
    _victim: Process | None = None

    def watch(self, victim: Process, kill_after: int) -> None:
        self.requests = []
        self._victim, self._kill_after = victim, kill_after

    @property
    def middleware(self) -> Any:
        @web.middleware
        async def count(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            answer = await handler(request)
            if "hcloud-python" in request.headers.get("User-Agent", ""):
                self.requests.append(f"{request.method} {request.path.removeprefix('/v1')}")
                if self._victim and len(self.requests) == self._kill_after:
                    self._victim.send_signal(signal.SIGKILL)
                    await self._victim.wait()
            return answer

        return count


@dataclass
class Site:
    emulator: EmulatedCloud
    cluster: Transport
    kubeconfig: Path
    folder: Path
    killer: Killer
    processes: list[Process] = field(default_factory=list)
    names: dict[int | str, str] = field(default_factory=dict)

    async def start(self, *, kill_after: int = NEVER) -> Process:
        """A CCM process. It elects no leader: else its successor had to wait until the lease expires."""
        (self.folder / "token").write_text(TOKEN)
        command = [
            sys.executable,
            "-m",
            "ccm",
            "--cloud-provider=ccm-from-scratch",
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            "--configure-cloud-routes=false",
            "--leader-elect=false",
            "--secure-port=0",
            "--min-resync-period=12h",
        ]
        with (self.folder / "ccm.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=ROOT,
                env=os.environ | environment(self.emulator, self.folder / "token"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.killer.watch(process, kill_after)
        self.processes.append(process)
        return process

    async def set_up(self) -> None:
        """Nodes with their servers, and a load balancer that is not ours."""
        network = await self.emulator.network(NETWORK)
        for number in range(NODES_IN_THE_LAB):
            made = await self.emulator.add_server(f"s{number}", networks=[network])
            self.names[made["id"]] = made["name"]
            body = {"apiVersion": "v1", "kind": "Node", **node(made["name"], number, made["id"])}
            await self.cluster.create(NODES, body, dict)
        theirs = {"name": "theirs", "load_balancer_type": "lb11", "location": "fsn1"}
        await self.emulator.call("POST", "/load_balancers", theirs)

    async def apply(self) -> None:
        """The Service that wants all that takes a request."""
        await self.cluster.create(SERVICES, service("web", [80, 443], RICH), dict)

    async def facts(self) -> list[str]:
        owners: dict[str, str] = {}
        said: list[str] = []
        try:
            found = await self.cluster.get(f"{SERVICES}/web", dict)
        except NotFound:
            pass
        else:
            owners[found["metadata"]["uid"]] = "web"
            said.append(facts.read_service(found))
        balancers, certificates = state(self.emulator, "load_balancer", "certificate")
        said += [facts.read_balancer(one, self.names) for one in balancers]
        return said + [facts.read_certificate(one, owners) for one in certificates]

    async def until(self, wanted: Sequence[str], process: Process) -> bool:
        """Wait for what is wanted; False = the process died before."""
        deadline = time.monotonic() + SECONDS
        while wrong := facts.difference(wanted, await self.facts()):
            if process.returncode is not None:
                return False
            if time.monotonic() > deadline:
                raise NotConverged(f"after {SECONDS:.0f} s {wrong}")
            await asyncio.sleep(POLL)
        return True

    async def check_stays(self, wanted: Sequence[str]) -> None:
        await asyncio.sleep(SETTLED)
        if wrong := facts.difference(wanted, await self.facts()):
            raise NotConverged(f"it was right, and then {wrong}")


@asynccontextmanager
async def memory_cluster() -> AsyncIterator[Cluster]:
    """An API server in memory, for a CCM in another process."""
    with tempfile.TemporaryDirectory() as folder:
        memory = MemoryTransport()
        async with serve_memory(memory, Path(folder)) as kubeconfig:
            yield memory, kubeconfig


async def kill_everywhere(
    open_cluster: OpenCluster = memory_cluster, *, at_once: int = AT_ONCE, method: str = ""
) -> AsyncIterator[Kill]:
    """Let the CCM die after each request of this method from its start to the end of a creation.

    ``open_cluster`` gives an API server that has the namespace ``shop`` and nothing that concerns the CCM. If
    all clusters are the same one, ``at_once`` must be 1.
    """
    turns = asyncio.Semaphore(at_once)

    async def run(call: int) -> tuple[Kill, list[str]]:
        async with turns, open_cluster() as (cluster, kubeconfig), _opened(cluster, kubeconfig) as site:
            return await _kill_once(site, call)

    undisturbed, requests = await run(NEVER)
    if undisturbed.problem:
        raise NotConverged(undisturbed.problem)
    kill_after = [call for call, request in enumerate(requests, start=1) if request.startswith(method)]
    for ended in asyncio.as_completed([run(call) for call in kill_after]):
        yield (await ended)[0]


@asynccontextmanager
async def _opened(cluster: Transport, kubeconfig: Path) -> AsyncIterator[Site]:
    """A site with all that a creation needs; nothing of it stays in the cluster."""
    killer = Killer()
    with tempfile.TemporaryDirectory() as folder:
        async with open_emulated_cloud(killer.middleware) as emulator:
            site = Site(emulator, cluster, kubeconfig, Path(folder), killer)
            try:
                await site.set_up()
                yield site
            finally:
                for process in site.processes:
                    if process.returncode is None:
                        process.kill()
                        await process.wait()
                for number in range(NODES_IN_THE_LAB):
                    await cluster.delete(f"{NODES}/s{number}")


async def _kill_once(site: Site, call: int) -> tuple[Kill, list[str]]:
    """One death and what came of it, and the requests of the process that died."""
    wanted = [*RICH_SERVICE, THEIRS]
    await site.apply()
    process = await site.start(kill_after=call)
    try:
        if await site.until(wanted, process):
            await site.check_stays(wanted)
        made = list(site.killer.requests)
        request = made[call - 1] if 0 < call <= len(made) else "none"
        if process.returncode is not None:
            process = await site.start()
            if not await site.until(wanted, process):
                raise LabError(f"the CCM ended by itself: {(site.folder / 'ccm.log').read_text()[-2000:]}")
        await site.check_stays(wanted)
        await site.cluster.delete(f"{SERVICES}/web")
        await site.until([THEIRS], process)
        await site.check_stays([THEIRS])
    except NotConverged as error:
        return Kill(call, f"after {call} requests", str(error)), []
    return Kill(call, request), made
