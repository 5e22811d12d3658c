"""Whether machines can run on this host: tries what they need of its kernel."""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hetzner_machines import cgroups, devices, libc, mounts, namespaces
from hetzner_machines.records import Hierarchy

ARCHITECTURES = ("x86_64", "aarch64")


def available(state: Path) -> str | None:
    """Why machines can't run here; None if they can."""
    if sys.platform != "linux" or os.uname().machine not in ARCHITECTURES:
        return (
            f"machines require Linux and one of these processor architectures: {' or '.join(ARCHITECTURES)}"
        )
    if os.geteuid() != 0:
        return "machines need root"
    return _namespaces(state) or _cgroups()


def _namespaces(state: Path) -> str | None:
    """Try namespaces and an overlay in a thread, which end with it."""
    with tempfile.TemporaryDirectory(prefix="probe-", dir=state) as folder:
        for name in ("lower", "upper", "work", "root"):
            Path(folder, name).mkdir()
        return namespaces.in_thread(lambda: _attempt(folder)) or None


def _attempt(folder: str) -> str:
    kinds = libc.CLONE_NEWNS | libc.CLONE_NEWUTS | libc.CLONE_NEWIPC | libc.CLONE_NEWCGROUP
    try:
        libc.unshare(kinds | libc.CLONE_NEWPID | libc.CLONE_NEWNET)
        folder = mounts.leave_the_hosts() + folder
    except OSError as error:
        return (
            f"machines require Linux namespaces: {error.strerror}. If you work in a container, start the "
            "container with --privileged"
        )
    try:
        os.chdir(folder)
        libc.mount("overlay", Path("root"), "overlay", options="lowerdir=lower,upperdir=upper,workdir=work")
        os.mknod("root/null", 0o020666, os.makedev(1, 3))
        with Path("root/null").open("wb"):
            return ""
    except OSError as error:
        return (
            f"machines require overlay mounts and device nodes, but the file system of {folder} lacks one or "
            f"both: {error.strerror}. If you work in a container, put the clone on a volume"
        )


def _cgroups() -> str | None:
    hierarchies = cgroups.discover()
    if not hierarchies:
        return f"machines require cgroups, but no cgroup file system is mounted below {cgroups.ROOT}"
    for hierarchy in hierarchies:
        folder = Path(hierarchy.directory, f"ccmfs-probe-{os.getpid()}")
        try:
            folder.mkdir()
            folder.rmdir()
        except OSError as error:
            return (
                f"machines require cgroups, but no cgroup can be created in {hierarchy.directory}: "
                f"{error.strerror}"
            )
    return _devices(hierarchies)


def _devices(hierarchies: Sequence[Hierarchy]) -> str | None:
    reason = "no cgroup controls devices"
    for decisive in cgroups.deciding_about_devices(hierarchies):
        folder = Path(decisive.directory, f"ccmfs-probe-{os.getpid()}")
        try:
            folder.mkdir()
            try:
                devices.fence(folder, decisive.kind)
            finally:
                folder.rmdir()
        except OSError as error:
            reason = error.strerror
        else:
            return None
    return f"machines require cgroups that can block access to this host's disks, but a test failed: {reason}"
