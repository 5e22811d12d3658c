"""One machine: its folder, its record on disk, its processes."""

from __future__ import annotations

import errno
import json
import logging
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from hetzner_emulator import descriptors
from hetzner_emulator.backend import AttachedVolume, BackendError, MachineSpec, PrivateInterface, VolumeSpec
from hetzner_machines import cgroups, disk, namespaces, processes, records, snapshots, topology
from hetzner_machines.airgap import Airgap
from hetzner_machines.errors import NotPermitted, StillThere, VolumeBusy
from hetzner_machines.guest import disks
from hetzner_machines.names import NAMESPACES, Names, host_name

log = logging.getLogger(__name__)

SOURCES = Path(__file__).resolve().parents[1]
START_DEADLINE = 20.0  # seconds until the guest's init runs; it takes a tenth
KILL_DEADLINE = 15.0  # seconds; a busy disk can hold a killed process for a while


@dataclass(frozen=True)
class Machine:
    """What is known of a machine."""

    directory: Path  # its folder
    spec: MachineSpec  # the cloud's specification
    # Interface numbers (0 is ens10) by network, kept as long as it is plugged.
    slots: Mapping[int, int] = field(default_factory=dict)

    def with_interface(self, interface: PrivateInterface) -> Machine:
        """The same with one more private interface, or with a changed one."""
        slots = dict(self.slots)
        slots.setdefault(interface.network_id, topology.free_slot(slots))
        others = self.without_interface(interface.network_id).spec.private
        return replace(self, spec=replace(self.spec, private=(*others, interface)), slots=slots)

    def without_interface(self, network_id: int) -> Machine:
        """The same without the interface in a network."""
        private = tuple(i for i in self.spec.private if i.network_id != network_id)
        slots = {network: slot for network, slot in self.slots.items() if network != network_id}
        return replace(self, spec=replace(self.spec, private=private), slots=slots)

    def interface(self, network_id: int) -> PrivateInterface | None:
        """The interface in a network."""
        return next((i for i in self.spec.private if i.network_id == network_id), None)

    def with_volumes(self, volumes: Sequence[AttachedVolume]) -> Machine:
        """The same with these volumes."""
        return replace(self, spec=replace(self.spec, volumes=tuple(volumes)))

    def with_floating_ips(self, addresses: Sequence[str]) -> Machine:
        """The same with these floating IPs."""
        return replace(self, spec=replace(self.spec, floating_ips=tuple(addresses)))

    @property
    def run(self) -> records.Run | None:
        """The processes of its last start."""
        return records.read_run(self.directory / "run.json")

    @property
    def keeper(self) -> processes.Identity | None:
        """Its start program, or None if it has ended."""
        run = self.run
        return run.keeper if run and processes.alive(run.keeper) else None

    def save(self) -> None:
        """Write the record."""
        record = {"spec": asdict(self.spec), "slots": self.slots}
        with disk.explained(self.directory):
            records.write(self.directory / "machine.json", json.dumps(record))


def load(directory: Path) -> Machine | None:
    """A machine from its folder; None if its creation was interrupted before the record was written."""
    try:
        raw = json.loads((directory / "machine.json").read_text())
    except FileNotFoundError:
        return None
    private = tuple(
        replace(PrivateInterface(**i), alias_ips=tuple(i["alias_ips"])) for i in raw["spec"].pop("private")
    )
    floating_ips = tuple(raw["spec"].pop("floating_ips", ()))
    volumes = tuple(
        AttachedVolume(VolumeSpec(**v["volume"]), v["automount"]) for v in raw["spec"].pop("volumes", ())
    )
    slots = {int(network): slot for network, slot in raw["slots"].items()}
    spec = MachineSpec(**raw["spec"], private=private, volumes=volumes, floating_ips=floating_ips)
    return Machine(directory, spec, slots)


def create(directory: Path, spec: MachineSpec, image: disk.Image, airgap: Airgap, site: str) -> Machine:
    """Make a machine's folder with its disk and record. Blocks."""
    known = load(directory)
    slots = known.slots if known else {}
    machine = Machine(directory, replace(spec, private=()), {})
    for interface in spec.private:
        kept = {interface.network_id: slots[interface.network_id]} if interface.network_id in slots else {}
        machine = replace(machine, slots={**machine.slots, **kept}).with_interface(interface)
    with disk.explained(directory):
        directory.mkdir(parents=True, exist_ok=True)
    start = None
    if spec.snapshot is not None:
        source = directory.parent.parent / snapshots.FOLDER / str(spec.snapshot)
        start = partial(snapshots.copy, source)
    identity = f"{site}/{spec.id}"
    disk.create(directory, image, airgap, host_name(spec.name), identity, asked=spec.image, start=start)
    machine.save()
    return machine


def boot(
    machine: Machine,
    image: disk.Image,
    names: Names,
    host: Sequence[records.Hierarchy],
    volumes: tuple[records.Disk, ...] = (),
) -> Path:
    """Make a machine's cgroups and the instructions for its start program; blocks briefly."""
    spec, directory = machine.spec, machine.directory
    member = f"srv-{spec.id}"
    try:
        loops = [each.number for each in volumes]
        size = spec.cores, spec.memory
        hierarchies = cgroups.create(names.cgroup, member, host, *size, volumes=loops)
        keeper = cgroups.create_keeper(names.cgroup, f"{member}.keeper", host)
    except OSError as error:
        raise NotPermitted(
            f"create the cgroups of server {spec.name} and block the server's access to the host's disks",
            error,
        ) from error
    with disk.explained(directory):
        for file in ("run.json", "ended"):
            (directory / file).unlink(missing_ok=True)
        records.write_json(
            directory / "boot.json",
            records.Boot(
                name=host_name(spec.name),
                serial=str(spec.id),
                directory=str(directory),
                lower=str(image.rootfs),
                namespace=str(NAMESPACES / names.server(spec.id)),
                keeper_cgroup=keeper,
                hierarchies=hierarchies,
                volumes=disk.VOLUMES,
                disks=volumes,
                descriptors=descriptors.GIVEN,
            ),
        )
    return directory / "boot.json"


def let_open(machine: Machine, volumes: Sequence[records.Disk]) -> None:
    """Let a running machine open these volumes and no others. Blocks briefly."""
    boot = records.read_boot(machine.directory / "boot.json")
    try:
        cgroups.fence(boot.hierarchies, [each.number for each in volumes])
    except OSError as error:
        raise NotPermitted(f"allow server {machine.spec.name} to use its volumes", error) from error


def show(machine: Machine, volume: records.Disk) -> None:
    """Make the device of a volume in a running machine, and mount it with automount. Blocks."""
    if reason := _inside(machine, lambda: disks.show(volume), f"show volume {volume.volume}"):
        log.warning("server %s: %s", machine.spec.name, reason)


def hide(machine: Machine, volume: int, number: int) -> None:
    """Remove the device of a volume from a running machine, and unmount an automount. Blocks."""

    def work() -> str:
        try:
            disks.hide(volume, number)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return "busy"
        return ""

    if _inside(machine, work, f"hide volume {volume}"):
        raise VolumeBusy(volume)


def _inside(machine: Machine, work: Callable[[], str], what: str) -> str:
    run = machine.run
    init = run.init if run else None
    if init is None:
        return ""  # the machine has ended
    try:
        return namespaces.in_thread(lambda: disks.inside(init.pid, work))
    except OSError as error:
        raise NotPermitted(f"{what} at server {machine.spec.name}", error) from error


def go_on(machine: Machine) -> None:
    """Thaw a machine that a killed sandbox froze to copy its disk."""
    cgroups.freeze(records.read_boot(machine.directory / "boot.json").hierarchies, still=False)


def spawn(machine: Machine, instructions: Path) -> int:
    """Run the start program in a new session, wait until the guest's init runs, return its pid. Blocks."""
    console = machine.directory / "console.log"
    readable, writable = os.pipe()
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-s", "-S", "-P", "-B", "-m", "hetzner_machines.guest", str(instructions), "3"],
            {"PYTHONPATH": str(SOURCES), "PATH": os.environ.get("PATH", "")},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(console), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, writable, 3),
            ],
            setsid=True,
        )
    except BaseException:
        os.close(readable)
        raise
    finally:
        os.close(writable)
    reason = _report(readable)
    run = machine.run
    if reason or run is None or run.init is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        why = reason or "the program that starts the machine failed"
        raise BackendError(
            f"server {machine.spec.name} did not start: {why}. See the console output in {console}"
        )
    return pid


def _report(readable: int) -> str:
    """The start program's report: empty if its guest's init runs, else the reason."""
    with os.fdopen(readable) as pipe:
        poll = select.poll()  # select is limited to descriptors below 1024
        poll.register(pipe, select.POLLIN)
        if not poll.poll(START_DEADLINE * 1000):
            return f"the program that starts the machine did not finish within {START_DEADLINE:g} s"
        return pipe.read()


def kill(machine: Machine) -> None:
    """Power off immediately: no process of the machine is left. Blocks."""
    run = machine.run
    if run:
        processes.send(run.init or run.keeper, signal.SIGKILL)
        if not processes.wait_gone(run.keeper, KILL_DEADLINE):
            processes.send(run.keeper, signal.SIGKILL)  # its death takes the guest's init along
        processes.reap(run.keeper.pid)


def clear(server_id: int, directory: Path, names: Names, host: Sequence[records.Hierarchy]) -> None:
    """Kill what is left in a machine's cgroups, and remove them. Blocks."""
    member = f"srv-{server_id}"
    wanted = {Path(m.directory, names.cgroup, name) for m in host for name in (member, f"{member}.keeper")}
    if (directory / "boot.json").exists():
        last = records.read_boot(directory / "boot.json")
        wanted |= {Path(last.keeper_cgroup), *(Path(h.directory) for h in last.hierarchies)}
    directories = sorted(path for path in wanted if path.exists())
    _, left = processes.kill_all(lambda: cgroups.members(directories), KILL_DEADLINE)
    if left:
        raise StillThere([f"process {pid}" for pid in sorted(left)])
    busy = cgroups.remove(directories)
    if busy:
        raise StillThere([f"cgroup {path}" for path in busy])


def delete(directory: Path) -> None:
    """Remove a machine's folder; its record goes last, so that a crash leaves a machine to remove."""
    disk.remove(directory / "disk")
    disk.remove(directory)
