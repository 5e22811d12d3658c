"""Cgroups of machines: their places in the host's hierarchies, creation, limits and removal.

With version 1 and mixed hosts: a folder below our own cgroup in every hierarchy. With version 2 only: below
the root, because a cgroup with processes, like ours, can't give controllers to its children.
"""

import errno
import os
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hetzner_machines import devices
from hetzner_machines.records import Hierarchy

ROOT = Path("/sys/fs/cgroup")
FREEZE_DEADLINE = 10.0
GUEST = "guest"
PERIOD = 100_000  # microseconds in which a quota of CPU time holds, the kernel's default


def parse(own: str, mounts: str, root: Path = ROOT) -> tuple[Hierarchy, ...]:
    """The host's hierarchies, from the texts of /proc/self/cgroup and /proc/self/mountinfo.

    Each has the folder of our own cgroup, or of the root in version 2.
    """
    paths = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        paths[controllers] = path
    found = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        inner, point = before.split()[3:5]
        if kind not in {"cgroup", "cgroup2"} or not Path(point).is_relative_to(root):
            continue
        controllers = _controllers(kind, options)
        if controllers not in paths:
            continue
        name = "" if Path(point) == root else str(Path(point).relative_to(root))
        base = Path(point)
        if name:
            base /= os.path.relpath(paths[controllers], inner)
        mount_options = f"none,{controllers}" if controllers.startswith("name=") else controllers
        found[name] = Hierarchy(str(base), kind, name, mount_options)
    return tuple(found.values())


def _controllers(kind: str, options: str) -> str:
    """The key of a hierarchy in /proc/self/cgroup, from the options of its mount."""
    if kind == "cgroup2":
        return ""
    known = options.split(",")
    named = [option for option in known if option.startswith("name=")]
    # Options that aren't controllers: of every file system, and of the hierarchy's setup.
    rest = [o for o in known if "=" not in o and o not in {"rw", "ro", "xattr", "noprefix", "clone_children"}]
    return named[0] if named else ",".join(rest)


def discover() -> tuple[Hierarchy, ...]:
    """The hierarchies of this host."""
    return parse(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())


def limits(kind: str, name: str, cores: int, memory: float) -> dict[str, str]:
    """Values for the files of a machine's cgroup in a hierarchy; memory is in GB."""
    quota, size = str(cores * PERIOD), str(int(memory * 2**30))
    if kind == "cgroup2":
        return {"cpu.max": f"{quota} {PERIOD}", "memory.max": size} if not name else {}
    controllers = name.split(",")
    wanted = {}
    if "cpu" in controllers:
        wanted["cpu.cfs_quota_us"] = quota
    if "memory" in controllers:
        wanted["memory.limit_in_bytes"] = size
    return wanted


def create(
    folder: str,
    member: str,
    host: Sequence[Hierarchy],
    cores: int,
    memory: float,
    *,
    volumes: Collection[int] = (),
) -> tuple[Hierarchy, ...]:
    """Make a machine's cgroups with its limits and without access to the host's disks; keeps existing ones.

    In version 2, the guest's root is a cgroup below the machine's. The machine's has the device program,
    which allows the loop devices with the numbers ``volumes``.
    """
    made = []
    for mounted in host:
        directory = Path(mounted.directory, folder, member)
        if mounted.kind == "cgroup2":
            directory /= GUEST
        _make(mounted, directory)
        for file, value in limits(mounted.kind, mounted.name, cores, memory).items():
            (directory / file).write_text(value)
        made.append(replace(mounted, directory=str(directory)))
    fence(made, volumes)
    return tuple(made)


def fence(hierarchies: Sequence[Hierarchy], volumes: Collection[int]) -> None:
    """Deny a machine all disks of the host except these volumes; OSError if they can't be distinguished."""
    failure = None
    for one in deciding_about_devices(hierarchies):
        try:
            devices.fence(Path(one.directory).parent, one.kind, volumes)
        except OSError as error:
            failure = error
            continue
        if volumes and one.kind == "cgroup":
            raise OSError(errno.ENOTSUP, "volumes require cgroups v2 with eBPF programs for devices")
        return
    raise failure or OSError(
        errno.ENOTSUP, "no mounted cgroup hierarchy can control access to devices", str(ROOT)
    )


def deciding_about_devices(hierarchies: Sequence[Hierarchy]) -> list[Hierarchy]:
    """The hierarchies that control devices, the better one first."""
    programs = [one for one in hierarchies if one.kind == "cgroup2"]
    return programs + [o for o in hierarchies if o.kind == "cgroup" and "devices" in o.name.split(",")]


def freeze(hierarchies: Sequence[Hierarchy], *, still: bool) -> None:
    """Freeze all processes of a machine for 10 seconds at most, or OSError; or thaw them. Blocks."""
    for one in hierarchies:
        own = Path(one.directory).parent
        if one.kind != "cgroup2" or not (own / "cgroup.freeze").exists():
            continue
        (own / "cgroup.freeze").write_text(str(int(still)))
        deadline = time.monotonic() + FREEZE_DEADLINE
        while still and "frozen 1" not in (own / "cgroup.events").read_text():
            if time.monotonic() > deadline:
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(own))
            time.sleep(0.01)
        return
    if still:
        raise OSError(errno.ENOTSUP, "no cgroups of version 2", str(ROOT))


def create_keeper(folder: str, member: str, host: Sequence[Hierarchy]) -> str:
    """Make the cgroup of a machine's start program, in one hierarchy and without limits."""
    mounted = next((m for m in host if m.name in {"", "pids", "systemd"}), host[0])
    directory = Path(mounted.directory, folder, member)
    _make(mounted, directory)
    return str(directory)


def _make(mounted: Hierarchy, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    if mounted.kind == "cgroup2" and not mounted.name:
        for parent in sorted({Path(mounted.directory), *directory.parents}):
            if not parent.is_relative_to(mounted.directory):
                continue
            counted = " +io" if "io" in (parent / "cgroup.controllers").read_text().split() else ""
            (parent / "cgroup.subtree_control").write_text(f"+cpu +memory +pids{counted}")
    if "cpuset" in mounted.name.split(","):  # a new cpuset is empty and accepts no process
        for part in (directory.parent, directory):
            for file in ("cpuset.cpus", "cpuset.mems"):
                (part / file).write_text((part.parent / file).read_text())
            (part / "cgroup.clone_children").write_text("1")


def find(folder: str, root: Path = ROOT) -> list[Path]:
    """All folders of a site in all hierarchies, whatever our own cgroup was when they were made."""
    found = []
    for path, folders, _ in os.walk(root):
        if folder in folders:
            found.append(Path(path, folder))
            folders.remove(folder)
    return found


def members(directories: Sequence[Path]) -> set[int]:
    """Processes in cgroups and below."""
    return {pid for directory in directories for pid in _members(directory)}


def _members(directory: Path) -> Iterator[int]:
    for path, _, _ in os.walk(directory):
        try:
            yield from (int(line) for line in Path(path, "cgroup.procs").read_text().split())
        except (FileNotFoundError, OSError):  # removed meanwhile; a threaded cgroup has no list
            continue


def remove(directories: Sequence[Path], timeout: float = 2.0) -> list[Path]:
    """Remove empty cgroups with those below; returns those still busy after ``timeout`` s. Blocks."""
    deadline = time.monotonic() + timeout
    while True:
        left = [directory for directory in directories if not _removed(directory)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.01)  # the kernel releases a cgroup a moment after its last process


def _removed(directory: Path) -> bool:
    for path, _, _ in os.walk(directory, topdown=False):
        try:
            Path(path).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
