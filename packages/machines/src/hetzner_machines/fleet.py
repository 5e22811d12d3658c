"""The machines of a site: made, started, found again after a crash, ended and removed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from hetzner_emulator.backend import BackendError, GuestEvent, MachineSpec, NetworkSpec
from hetzner_machines import capacity, cgroups, disk, machine, processes, records
from hetzner_machines.airgap import Airgap
from hetzner_machines.disk import Image
from hetzner_machines.errors import InotifyExhausted, UnknownMachine, UnknownNetwork
from hetzner_machines.fabric import Fabric
from hetzner_machines.machine import Machine
from hetzner_machines.names import Names
from hetzner_machines.volumes import Volumes
from hetzner_machines.watcher import Watcher

log = logging.getLogger(__name__)


class Fleet:
    """The machines of a site. What is done with one is done by one at a time, see :meth:`lock`."""

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
        """A machine.

        Raises:
            UnknownMachine: There is none.
        """
        try:
            return self.all[server_id]
        except KeyError:
            raise UnknownMachine(server_id) from None

    def lock(self, server_id: int) -> asyncio.Lock:
        """Held while something is done with a machine."""
        return self._locks.setdefault(server_id, asyncio.Lock())

    def keep(self, after: Machine) -> None:
        """Record what is known of a machine from now on."""
        after.save()
        self.all[after.spec.id] = after

    def made(self) -> set[int]:
        """Ids of the machines that have a folder, whoever knows of them."""
        return {int(folder.name) for folder in self.folder.glob("[0-9]*")}

    async def start(self, machines: Mapping[MachineSpec, bool], events: GuestEvent) -> None:
        """Go on with the machines that run, start those that should, and end the others.

        A machine that can't be started is told as off, with its reason in the log: the others go on.
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
        """Finish the plugging and unplugging of interfaces that a crash cut short."""
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
        """Make the disk of a machine.

        Raises:
            DiskFull: No space left.
        """
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
        """Start a machine; one that runs is left alone.

        Raises:
            InotifyExhausted: The kernel's limit doesn't allow one more machine.
        """
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
            raise UnknownNetwork(spec.id, min(missing))
        await self._fabric.create_server(spec, known.slots, self._networks)
        disks = await asyncio.to_thread(self.disks, known)
        instructions = await asyncio.to_thread(
            machine.boot, known, self._image, self._names, self._host, disks
        )
        await asyncio.to_thread(machine.spawn, known, instructions)
        run = known.run
        assert run is not None, "a start program that reported has left its record"
        self.watcher.watch(spec.id, run.keeper)

    def disks(self, known: Machine) -> tuple[records.Disk, ...]:
        """The volumes of a machine, each with a device. Blocks."""
        return tuple(
            records.Disk(each.volume.id, self._volumes.device(each.volume.id), each.automount)
            for each in known.spec.volumes
        )

    async def power_off(self, server_id: int) -> None:
        """Pull the plug."""
        async with self.lock(server_id):
            await self._pull_plug(self.known(server_id))

    async def _pull_plug(self, known: Machine) -> None:
        self.watcher.forget(known.spec.id)
        await asyncio.to_thread(machine.kill, known)
        await self._clear(known.spec.id)

    async def _clear(self, server_id: int) -> None:
        """Leave nothing of a machine but its disk."""
        directory = self.folder / str(server_id)
        await asyncio.to_thread(machine.clear, server_id, directory, self._names, self._host)
        await self._fabric.delete_server(server_id)
        (directory / "run.json").unlink(missing_ok=True)

    async def signal(self, server_id: int, number: int) -> None:
        """Ask a machine's init for something; one that is off hears nothing."""
        run = self.known(server_id).run
        if run and run.init:
            processes.send(run.init, number)

    async def reset(self, server_id: int) -> None:
        """Pull the plug and start again."""
        async with self.lock(server_id):
            known = self.known(server_id)
            await self._pull_plug(known)
            await self._boot(known)

    async def delete(self, server_id: int) -> None:
        """Remove a machine with its disk; one that is gone is fine."""
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
        """A machine ended that nobody here ended: its guest powered off, rebooted or died."""
        async with self.lock(server_id):
            known = self.all.get(server_id)
            if known is None or known.run is None or known.run.keeper != keeper:
                return  # power_off, reset or delete came first
            end = records.read_end(known.directory / "ended")
            try:
                await self._clear(server_id)
                if end == records.REBOOT:
                    await self._boot(known)
            except (BackendError, OSError) as error:
                log.error("server %s ended (%s) and is off: %s", known.spec.name, end, error)  # noqa: TRY400
                end = "failed"
        self._events(server_id, {records.REBOOT: "running", "failed": "failed"}.get(end, "off"))


def _check_capacity(others: Sequence[Machine]) -> None:
    """Refuse a machine that the kernel has no room for beside these."""
    inits = [run.init for other in others if (run := other.run)]
    own = {n for init in inits if init and (n := capacity.process_namespace(init.pid))}
    # Those that have just been started have not taken all of theirs yet. One is a control server, at least.
    needed = max(0, capacity.instances_needed(len(own) + 1, 1) - capacity.instances_inside(own))
    free = capacity.instances_free(needed)
    if free < needed:
        raise InotifyExhausted(needed, free, capacity.remedy(capacity.instances_allowed(), needed))
