"""All load balancers of a site: their addresses, haproxy, and the health of targets."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hetzner_emulator.backend import BackendError, LoadBalancerSpec, NetworkSpec, PrivateInterface
from hetzner_machines import counters, disk, ipv6, namespaces, processes, records, topology
from hetzner_machines.balancer import config, health, process
from hetzner_machines.fabric import Fabric
from hetzner_machines.names import Names
from hetzner_machines.watcher import Watcher

log = logging.getLogger(__name__)

T = TypeVar("T")

FRESH = 0.5  # seconds for which an answer about health is used again
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a haproxy that ended by itself is started again
OWN_DESCRIPTORS = 200  # files and sockets of haproxy that belong to no connection


@dataclass(frozen=True)
class Attachment:
    """Addresses of a load balancer."""

    ipv4: str | None  # its public address; None if the public interface is disabled
    ipv6: str | None  # the same for IPv6
    private: tuple[tuple[int, str], ...]  # network id and address of each private interface

    @staticmethod
    def of(spec: LoadBalancerSpec) -> Attachment:
        """The requested attachment."""
        public = (spec.public_ipv4, spec.public_ipv6 or None) if spec.public_enabled else (None, None)
        return Attachment(*public, spec.private)


class LoadBalancers:
    """Runs load balancers."""

    def __init__(
        self,
        names: Names,
        folder: Path,
        fabric: Fabric,
        networks: Mapping[int, NetworkSpec],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names, self._folder, self._fabric, self._networks = names, folder, fabric, networks
        self._clock = clock
        self._locks: dict[int, asyncio.Lock] = {}
        self._specs: dict[int, LoadBalancerSpec] = {}
        self._seen: dict[int, tuple[float, str]] = {}
        self._ipv6 = ipv6.KERNEL.is_dir()
        self._watcher = Watcher(self._ended)
        self._closing = asyncio.Event()

    async def put(self, load_balancer: LoadBalancerSpec) -> None:
        """Create or change a load balancer; connections continue if possible.

        Its haproxy is restarted whenever it ends, until :meth:`delete` or :meth:`close`.
        """
        async with self._lock(load_balancer.id):
            await self._connect(load_balancer)
            self._watcher.watch(load_balancer.id, await asyncio.to_thread(self._serve, load_balancer))
            self._specs[load_balancer.id] = load_balancer
            self._seen.pop(load_balancer.id, None)

    async def close(self) -> None:
        """Forget all load balancers; their processes continue."""
        self._specs.clear()
        self._seen.clear()
        self._closing.set()
        await self._watcher.close()
        self._closing.clear()

    def _lock(self, load_balancer_id: int) -> asyncio.Lock:
        return self._locks.setdefault(load_balancer_id, asyncio.Lock())

    async def _ended(self, load_balancer_id: int, haproxy: processes.Identity) -> None:
        """A haproxy ended: try to start another one, with increasing delay."""
        pause = FIRST_PAUSE
        while not (await self._closes_within(pause) or await self._replaced(load_balancer_id, haproxy)):
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _closes_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._closing.wait()
        except TimeoutError:
            return False

    async def _replaced(self, load_balancer_id: int, haproxy: processes.Identity) -> bool:
        """Start a replacement for one that ended; True if it runs, or isn't needed."""
        async with self._lock(load_balancer_id):
            spec = self._specs.get(load_balancer_id)
            run = records.read_run(self._directory(load_balancer_id) / "run.json")
            removed = not namespaces.exists(self._names.load_balancer(load_balancer_id))  # deleted by hand
            if spec is None or removed or run is None or run.keeper != haproxy:
                return True
            try:
                self._watcher.watch(load_balancer_id, await asyncio.to_thread(self._serve, spec))
            except (BackendError, OSError) as error:
                log.error(  # noqa: TRY400  a message
                    "load balancer %s has no haproxy process, because the restart failed: %s",
                    spec.name,
                    error,
                )
                return False
        log.warning("the haproxy process of load balancer %s exited, and was restarted", spec.name)
        return True

    async def delete(self, load_balancer_id: int) -> None:
        """Remove a load balancer; a missing one is fine."""
        async with self._lock(load_balancer_id):
            self._watcher.forget(load_balancer_id)
            self._specs.pop(load_balancer_id, None)
            self._seen.pop(load_balancer_id, None)
            await asyncio.to_thread(self._end, load_balancer_id)
            await self._disconnect_all(load_balancer_id)
            await asyncio.to_thread(namespaces.delete, self._names.load_balancer(load_balancer_id))
            await asyncio.to_thread(disk.remove, self._directory(load_balancer_id))
            await asyncio.to_thread(disk.remove, self._sockets(load_balancer_id))

    def health(self, load_balancer_id: int) -> Mapping[tuple[str, int], str]:
        """Health by (target address, listen port), without targets that were not checked yet."""
        return self._by_target(load_balancer_id, health.parse)

    def failures(self, load_balancer_id: int) -> Mapping[tuple[str, int], tuple[str, int | None]]:
        """Why targets are unhealthy, by (target address, listen port)."""
        return self._by_target(load_balancer_id, health.failures)

    def _by_target(
        self, load_balancer_id: int, read: Callable[[str], Mapping[tuple[str, str], T]]
    ) -> dict[tuple[str, int], T]:
        """Haproxy's statistics for each current target; cached for a moment."""
        spec = self._specs.get(load_balancer_id)
        if spec is None:
            return {}
        now = self._clock()
        at, answer = self._seen.get(load_balancer_id, (float("-inf"), ""))
        if now - at > FRESH:
            answer = self._statistics(load_balancer_id)
            self._seen[load_balancer_id] = (now, answer)
        addresses = [target.address for target in spec.targets]
        ports = [service.listen_port for service in spec.services]
        return health.by_target(read(answer), addresses, ports)

    async def measure(self) -> dict[int, dict[str, float]]:
        """Counters of every load balancer that answers, by series of the API's metrics."""
        answers = {number: await asyncio.to_thread(self._statistics, number) for number in list(self._specs)}
        return {number: counters.of_balancer(answer) for number, answer in answers.items() if answer}

    def _statistics(self, load_balancer_id: int) -> str:
        """Haproxy's statistics; empty while it starts or reloads. Blocks."""
        try:
            return process.ask(self._sockets(load_balancer_id) / "stats", "show stat")
        except OSError:
            return ""

    def _directory(self, load_balancer_id: int) -> Path:
        return self._folder / str(load_balancer_id)

    def _sockets(self, load_balancer_id: int) -> Path:
        return self._names.sockets / f"lb-{load_balancer_id}"

    async def _connect(self, spec: LoadBalancerSpec) -> None:
        """Set up the namespace and its interfaces; existing ones stay if they fit."""
        name, wanted = self._names.load_balancer(spec.id), Attachment.of(spec)
        record = self._directory(spec.id) / "attachment.json"
        if not namespaces.exists(name):
            await self._disconnect_all(spec.id)
            await self._fabric.make(name, topology.MACHINE)
        await self._fabric.ignore_icmp_errors(name)
        before = _read_attachment(record) or Attachment(None, None, ())
        with disk.explained(self._directory(spec.id)):
            self._directory(spec.id).mkdir(parents=True, exist_ok=True, mode=0o700)
        await self._connect_public(spec.id, name, before, wanted)
        for network_id, _ in set(before.private) - set(wanted.private):
            await self._fabric.delete_link(self._names.network(network_id), _port(spec.id))
        for slot, (network_id, ip) in enumerate(wanted.private):
            if not await self._fabric.plugged(_port(spec.id), network_id):
                await self._plug(spec.id, slot, network_id, ip)
        if wanted != before:
            records.write_json(record, wanted)

    async def _connect_public(
        self, load_balancer_id: int, name: str, before: Attachment, wanted: Attachment
    ) -> None:
        port, addresses = _port(load_balancer_id), (wanted.ipv4, wanted.ipv6)
        there = await self._fabric.has_link(self._names.router, port)
        if there and (before.ipv4, before.ipv6) == addresses:
            return
        await self._fabric.delete_link(self._names.router, port)
        if any(addresses):
            mac = topology.balancer_mac(load_balancer_id)
            await self._fabric.plug_public(port, name, mac, *addresses)

    async def _plug(self, load_balancer_id: int, slot: int, network_id: int, ip: str) -> None:
        mac = topology.balancer_mac(load_balancer_id, slot + 1)
        await self._fabric.plug_private(
            _port(load_balancer_id),
            self._names.load_balancer(load_balancer_id),
            topology.private_device(slot),
            PrivateInterface(network_id, ip, (), mac),
            self._networks[network_id],
            metadata=False,
        )

    async def _disconnect_all(self, load_balancer_id: int) -> None:
        await self._fabric.delete_link(self._names.router, _port(load_balancer_id))
        await self._fabric.delete_private_ports(_port(load_balancer_id))

    def _serve(self, spec: LoadBalancerSpec) -> processes.Identity:
        """Start haproxy, or reload it if its configuration or certificates differ."""
        directory, sockets = self._directory(spec.id), self._sockets(spec.id)
        sockets.mkdir(parents=True, exist_ok=True, mode=0o700)
        changed = self._write(spec, directory, sockets)
        known = records.read_run(directory / "run.json")
        printed, master = directory / "haproxy.log", sockets / "master"
        if known and processes.alive(known.keeper):
            haproxy = known.keeper
            if changed:
                _keep_health(sockets / "stats", directory / "health")
                process.reload(haproxy, master, printed)
        else:
            # a process without a record, after a crash
            namespaces.kill_inside(self._names.load_balancer(spec.id))
            current = directory / "haproxy.cfg"
            haproxy = process.start(self._names.load_balancer(spec.id), current, master, printed)
            records.write_json(directory / "run.json", records.Run(haproxy, None))
        (directory / "applied").touch()
        return haproxy

    def _write(self, spec: LoadBalancerSpec, directory: Path, sockets: Path) -> bool:
        """Write configuration and certificates; True if haproxy runs with others.

        Files are replaced only after haproxy has accepted them.
        """
        current, applied = directory / "haproxy.cfg", directory / "applied"
        texts = config.certificates(spec)
        digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
        folder = directory / f"certificates-{digest[:12]}"
        places = config.Places(str(sockets / "stats"), str(directory / "health"), str(folder), self._ipv6)
        text = config.render(spec, places, _connections())
        if current.exists() and applied.exists() and current.read_text() == text:
            return False
        with disk.explained(directory):
            folder.mkdir(exist_ok=True, mode=0o700)
            for name, certificate in texts.items():
                (folder / name).touch(mode=0o600)
                (folder / name).write_text(certificate)
            (directory / "health").touch(mode=0o600)
            new = directory / "haproxy.cfg.new"
            new.write_text(text)
            process.check(new)
            applied.unlink(missing_ok=True)
            new.replace(current)
            for old in directory.glob("certificates-*"):
                if old != folder:
                    disk.remove(old)
        return True

    def _end(self, load_balancer_id: int) -> None:
        known = records.read_run(self._directory(load_balancer_id) / "run.json")
        if known:
            process.end(known.keeper)
        namespaces.kill_inside(self._names.load_balancer(load_balancer_id))


def _port(load_balancer_id: int) -> str:
    """The name of a load balancer's ports in the router and in networks."""
    return f"b{load_balancer_id}"


def _read_attachment(path: Path) -> Attachment | None:
    if not path.exists():
        return None
    raw = json.loads(path.read_text())
    return Attachment(raw["ipv4"], raw["ipv6"], tuple((network, ip) for network, ip in raw["private"]))


def _keep_health(stats: Path, file: Path) -> None:
    """Save what the worker knows about the health of targets, for the next worker."""
    try:
        state = process.ask(stats, "show servers state")
    except OSError:  # the worker doesn't answer
        return
    records.write(file, state.strip() + "\n")


def _connections() -> int:
    """Maximum connections of one process: each needs two descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(100, (hard - OWN_DESCRIPTORS) // 2) if hard != resource.RLIM_INFINITY else 100_000
