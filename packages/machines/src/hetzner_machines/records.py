"""A machine's files on disk, written atomically."""

from __future__ import annotations

import hashlib
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
    """One cgroup hierarchy as a machine uses it.

    Attributes:
        directory: The machine's cgroup as a folder of the host.
        kind: ``cgroup`` or ``cgroup2``.
        name: Its mount point below /sys/fs/cgroup; empty for that folder itself.
        options: Of the mount.
    """

    directory: str
    kind: str
    name: str
    options: str


@dataclass(frozen=True)
class Disk:
    """A machine's volume.

    Attributes:
        volume: Its id.
        number: Of its loop device.
        automount: Whether it is mounted at the start.
    """

    volume: int
    number: int
    automount: bool


@dataclass(frozen=True)
class Boot:
    """Input of a machine's start program.

    Attributes:
        name: First host name.
        serial: The server's id as text, as in DMI.
        directory: The machine's folder; its ``disk`` has upper, work, root and data.
        lower: The image's root, read-only.
        namespace: Path of the network namespace.
        keeper_cgroup: Folder whose member the start program becomes.
        hierarchies: The machine's cgroups.
        volumes: Folders of the guest on the plain disk, without leading slash.
        disks: Its volumes.
        init: The guest's first program.
        descriptors: The guest's initial soft limit of open files, which systemd passes to all services; None:
            that of the start program.
    """

    name: str
    serial: str
    directory: str
    lower: str
    namespace: str
    keeper_cgroup: str
    hierarchies: tuple[Hierarchy, ...]
    volumes: tuple[str, ...]
    disks: tuple[Disk, ...] = ()
    init: tuple[str, ...] = ("/sbin/init",)
    descriptors: int | None = None


@dataclass(frozen=True)
class Run:
    """The processes of a machine that was started.

    Attributes:
        keeper: The start program.
        init: The guest's first process; None until its root is built.
    """

    keeper: Identity
    init: Identity | None


def write(path: Path, text: str) -> None:
    """Replace a file atomically."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


def write_json(path: Path, record: Any) -> None:
    """Replace a file with a dataclass as JSON."""
    write(path, json.dumps(asdict(record)))


def digest(text: str) -> str:
    """A short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


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
