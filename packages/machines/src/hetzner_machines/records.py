"""A machine's files on disk, written atomically."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hetzner_machines.processes import Identity

POWEROFF = "poweroff"
REBOOT = "reboot"
KILLED = "killed"

SIGRTMIN = 34  # as systemd counts; the C library reserves the two before it
POWEROFF_SIGNAL = SIGRTMIN + 4
REBOOT_SIGNAL = SIGRTMIN + 5


@dataclass(frozen=True)
class Hierarchy:
    """One cgroup hierarchy, as the host or a machine uses it."""

    directory: str  # our own or the machine's cgroup in it, as a folder of the host
    kind: str  # ``cgroup`` or ``cgroup2``
    name: str  # its mount point below /sys/fs/cgroup; empty for that folder itself
    options: str  # of the mount


@dataclass(frozen=True)
class Disk:
    """A machine's volume."""

    volume: int  # its id
    number: int  # of its loop device
    automount: bool  # whether it is mounted at the start


@dataclass(frozen=True)
class Boot:
    """Input of a machine's start program."""

    name: str  # first host name
    serial: str  # the server's id as text, as in DMI
    directory: str  # the machine's folder; its ``disk`` has upper, work, root and data
    lower: str  # the image's root, read-only
    namespace: str  # path of the network namespace
    keeper_cgroup: str  # folder whose member the start program becomes
    hierarchies: tuple[Hierarchy, ...]  # the machine's cgroups
    volumes: tuple[str, ...]  # folders of the guest on the plain disk, without leading slash
    disks: tuple[Disk, ...] = ()  # its volumes
    init: tuple[str, ...] = ("/sbin/init",)  # the guest's first program
    # The guest's initial soft limit of open files, which systemd passes to all services; None: that of the
    # start program.
    descriptors: int | None = None


@dataclass(frozen=True)
class Run:
    """The processes of a machine that was started."""

    keeper: Identity  # the start program
    init: Identity | None  # the guest's first process; None until its root is built


def write(path: Path, text: str) -> None:
    """Replace a file atomically."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


def write_json(path: Path, record: Any) -> None:
    """Replace a file with a dataclass as JSON."""
    write(path, json.dumps(asdict(record)))


def read_boot(path: Path) -> Boot:
    """The instructions for a machine's start program."""
    raw: dict[str, Any] = json.loads(path.read_text())
    lists: dict[str, Any] = {name: tuple(value) for name, value in raw.items() if isinstance(value, list)}
    lists["hierarchies"] = tuple(Hierarchy(**hierarchy) for hierarchy in raw["hierarchies"])
    lists["disks"] = tuple(Disk(**attached) for attached in raw.get("disks", ()))
    return Boot(**{**raw, **lists})


def read_run(path: Path) -> Run | None:
    """The processes of a machine; None if it was never started or was powered off."""
    try:
        raw = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    init = raw["init"]
    return Run(Identity(**raw["keeper"]), Identity(**init) if init else None)


def read_end(path: Path) -> str:
    """How the machine ended: ``poweroff``, ``reboot``, or else ``killed``."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return KILLED
