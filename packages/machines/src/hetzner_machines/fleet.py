"""The machines of a site: made, started, adopted after a crash, ended and removed."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from hetzner_emulator.backend import BackendError, GuestEvent, MachineSpec, NetworkSpec
from hetzner_machines import capacity, cgroups, disk, machine, processes, records
from hetzner_machines.airgap import Airgap
from hetzner_machines.disk import Image
from hetzner_machines.fabric import Fabric
from hetzner_machines.machine import Machine
from hetzner_machines.names import Names
from hetzner_machines.volumes import Volumes
from hetzner_machines.watcher import Watcher

log = logging.getLogger(__name__)


class Fleet:
    """The machines of a site. Operations on one machine run one at a time, see :meth:`lock`."""

    def __init__(
        self,
        names: Names,
        state: Path,
        image: Image,
        *,
        fabric: Fabric,
        networks: Mapping[int, NetworkSpec],
        volumes: Volumes,
    ) -> None:
        self.folder = state / disk.MACHINES
        self.all: dict[int, Machine] = {}
        self.watcher = Watcher(self._ended)
        self._names = names
        self._image = image
        self._fabric = fabric
        self._networks = networks
        self._volumes = volumes
        self._airgap = Airgap(state)
        self._host = cgroups.discover()
        self._locks: dict[int, asyncio.Lock] = {}
        self._events: GuestEvent = lambda _server, _state: None

    def known(self, server_id: int) -> Machine:
        """A machine; BackendError if it doesn't exist."""
        try:
            return self.all[server_id]
        except KeyError:
            raise BackendError(f"server {server_id} has no machine. Delete and recreate the server") from None

    def lock(self, server_id: int) -> asyncio.Lock:
        """Held during an operation on a machine."""
        return self._locks.setdefault(server_id, asyncio.Lock())

    def keep(self, after: Machine) -> None:
        """Record a machine's new state."""
        after.save()
        self.all[after.spec.id] = after

    def made(self) -> set[int]:
        """IDs of the machines that have a folder."""
        return {int(folder.name) for folder in self.folder.glob("[0-9]*")}

    async def start(self, machines: Mapping[MachineSpec, bool], events: GuestEvent) -> None:
        """Adopt the machines that run, start those that should run, and end the others.

        A machine that can't be started is reported as off, with the reason in the log: the others start.
        """
        self._events = events
        await asyncio.gather(*(self._heal_or_tell(spec, on) for spec, on in machines.items()))

    async def _heal_or_tell(self, spec: MachineSpec, powered_on: bool) -> None:  # noqa: FBT001  as below
        try:
            await self._heal(spec, powered_on)
        except (BackendError, OSError) as error:
            log.error("server %s is off: %s", spec.name, error)  # noqa: TRY400  a message, no stack trace
            self._events(spec.id, "failed")

    async def _heal(self, spec: MachineSpec, powered_on: bool) -> None:  # noqa: FBT001  as in the contract
        async with self.lock(spec.id):
            before = machine.load(self.folder / str(spec.id))
            known = await self._create(spec)
            keeper = known.keeper
            if keeper is None:
                ended_by_itself = known.run is not None and records.read_end(known.directory / "ended")
                await self._clear(spec.id)
                if powered_on and ended_by_itself == records.POWEROFF:
                    self._events(spec.id, "off")
                elif powered_on:
                    await self._boot(known)
            elif powered_on:
                await asyncio.to_thread(machine.go_on, known)
                self.watcher.watch(spec.id, keeper)
                await self._replug(before or known, known)
            else:
                await self._pull_plug(known)

    async def _replug(self, before: Machine, known: Machine) -> None:
        """Finish changes of interfaces that a crash interrupted."""
        spec = known.spec
        await self._fabric.unroute(spec.id, set(before.spec.floating_ips) - set(spec.floating_ips))
        await self._fabric.ensure_public(spec)
        for interface in before.spec.private:
            if interface not in spec.private:
                await self._fabric.unplug(spec, interface)
        for interface in spec.private:
            if not await self._fabric.plugged(f"s{spec.id}", interface.network_id):
                network = self._networks[interface.network_id]
                await self._fabric.plug(spec, interface, network, known.slots[interface.network_id])

    async def create(self, spec: MachineSpec) -> None:
        """Make a machine's disk; raises DiskFull."""
        async with self.lock(spec.id):
            await self._create(spec)

    async def _create(self, spec: MachineSpec) -> Machine:
        directory = self.folder / str(spec.id)
        known = await asyncio.to_thread(
            machine.create, directory, spec, self._image, self._airgap, self._names.site
        )
        self.all[spec.id] = known
        return known

    async def power_on(self, server_id: int) -> None:
        """Start a machine unless it runs; BackendError if a limit of the kernel doesn't allow one more."""
        async with self.lock(server_id):
            known = self.known(server_id)
            if known.keeper is None:
                await self._boot(known)

    async def _boot(self, known: Machine) -> None:
        spec = known.spec
        others = [other for other in self.all.values() if other.spec.id != spec.id]
        await asyncio.to_thread(_check_capacity, others)
        await self._clear(spec.id)
        missing = {i.network_id for i in spec.private} - set(self._networks)
        if missing:
            raise BackendError(
                f"server {spec.id} is attached to network {min(missing)}, but this network doesn't "
                "exist. Detach the server from the network"
            )
        await self._fabric.create_server(spec, known.slots, self._networks)
        disks = await asyncio.to_thread(self.disks, known)
        instructions = await asyncio.to_thread(
            machine.boot, known, self._image, self._names, self._host, disks
        )
        await asyncio.to_thread(machine.spawn, known, instructions)
        run = known.run
        assert run is not None, "a machine's start program must write run.json before it reports success"
        self.watcher.watch(spec.id, run.keeper)

    def disks(self, known: Machine) -> tuple[records.Disk, ...]:
        """The volumes of a machine, each with a device. Blocks."""
        return tuple(
            records.Disk(each.volume.id, self._volumes.device(each.volume.id), each.automount)
            for each in known.spec.volumes
        )

    async def power_off(self, server_id: int) -> None:
        """Power off immediately."""
        async with self.lock(server_id):
            await self._pull_plug(self.known(server_id))

    async def _pull_plug(self, known: Machine) -> None:
        self.watcher.forget(known.spec.id)
        await asyncio.to_thread(machine.kill, known)
        await self._clear(known.spec.id)

    async def _clear(self, server_id: int) -> None:
        """Remove everything of a machine except its disk."""
        directory = self.folder / str(server_id)
        await asyncio.to_thread(machine.clear, server_id, directory, self._names, self._host)
        await self._fabric.delete_server(server_id)
        (directory / "run.json").unlink(missing_ok=True)

    async def signal(self, server_id: int, number: int) -> None:
        """Send a signal to a machine's init; nothing happens if it is off."""
        run = self.known(server_id).run
        if run and run.init:
            processes.send(run.init, number)

    async def reset(self, server_id: int) -> None:
        """Power off immediately, and start again."""
        async with self.lock(server_id):
            known = self.known(server_id)
            await self._pull_plug(known)
            await self._boot(known)

    async def delete(self, server_id: int) -> None:
        """Remove a machine with its disk; a missing one is fine."""
        async with self.lock(server_id):
            directory = self.folder / str(server_id)
            known = self.all.get(server_id) or machine.load(directory)
            self.watcher.forget(server_id)
            if known:
                await asyncio.to_thread(machine.kill, known)
            await self._clear(server_id)
            for each in known.spec.volumes if known else ():
                await asyncio.to_thread(self._volumes.release, each.volume.id)
            if directory.exists():
                await asyncio.to_thread(machine.delete, directory)
            self.all.pop(server_id, None)

    async def _ended(self, server_id: int, keeper: processes.Identity) -> None:
        """A machine ended by itself: its guest powered off, rebooted or died."""
        async with self.lock(server_id):
            known = self.all.get(server_id)
            if known is None or known.run is None or known.run.keeper != keeper:
                return  # power_off, reset or delete was first
            end = records.read_end(known.directory / "ended")
            try:
                await self._clear(server_id)
                if end == records.REBOOT:
                    await self._boot(known)
            except (BackendError, OSError) as error:
                log.error(  # noqa: TRY400
                    "server %s stopped (%s). Then the cleanup or restart failed, so the server stays off: %s",
                    known.spec.name,
                    end,
                    error,
                )
                end = "failed"
        self._events(server_id, {records.REBOOT: "running", "failed": "failed"}.get(end, "off"))


def _check_capacity(others: Sequence[Machine]) -> None:
    """Refuse to start a machine if the kernel's limit doesn't allow another one."""
    inits = [run.init for other in others if (run := other.run)]
    own = {n for init in inits if init and (n := capacity.process_namespace(init.pid))}
    # Machines that just started don't have all of theirs yet. One is a control server, at least.
    needed = max(0, capacity.instances_needed(len(own) + 1, 1) - capacity.instances_inside(own))
    free = capacity.instances_free(needed)
    if free < needed:
        raise BackendError(
            f"to start another machine, this user needs {needed} inotify instances, but only {free} are left "
            "on this host. Delete a server, or raise the limit: "
            f"{capacity.remedy(capacity.instances_allowed(), needed)}"
        )
