"""Network namespaces below /run/netns, running functions inside of one, and ending its processes.

``ip netns add`` makes the same, but with a side effect: a shared mount on /run/netns that would outlive us. A
thread can enter a network namespace; it must not be reused afterwards.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from hetzner_machines import libc, mounts, processes
from hetzner_machines.names import NAMESPACES

T = TypeVar("T")

DEADLINE = 15.0


def listing() -> list[str]:
    """Names of all network namespaces of the host."""
    return sorted(entry.name for entry in NAMESPACES.iterdir()) if NAMESPACES.is_dir() else []


def exists(name: str) -> bool:
    """Whether a namespace exists; a file that a crash left doesn't count."""
    path = NAMESPACES / name
    try:
        # A file that isn't a mount of a namespace has another file system than the proc entry.
        return path.stat().st_dev == Path("/proc/self/ns/net").stat().st_dev
    except FileNotFoundError:
        return False


def create(name: str) -> None:
    """Make a namespace; keeps an existing one."""
    if exists(name):
        return
    path = NAMESPACES / name
    NAMESPACES.mkdir(mode=0o755, exist_ok=True)
    path.touch(mode=0o444)

    def make() -> None:
        libc.unshare(libc.CLONE_NEWNET)
        libc.mount("/proc/thread-self/ns/net", path, flags=libc.MS_BIND)

    try:
        in_thread(make)
    except OSError:
        path.unlink()
        raise


def delete(name: str) -> None:
    """Remove a namespace's name; the namespace ends with its last process. A missing one is fine."""
    path = NAMESPACES / name
    if exists(name):
        libc.unmount(path, libc.MNT_DETACH)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        in_thread(lambda: _unlink_covered(path))


def _unlink_covered(path: Path) -> None:
    """Remove a name whose mount is covered and can't be reached.

    The first ``ip netns add`` on a host, also by a CNI plugin, mounts /run/netns on itself, on top of earlier
    mounts below it. A file that is a mount point in the caller's mount namespace can't be unlinked; if it is
    one in others only, unlinking unmounts it there (mount_namespaces(7)). So this thread unmounts everything
    in a new namespace.
    """
    libc.unshare(libc.CLONE_NEWNS)
    path = Path(f"{mounts.leave_the_hosts()}{path}")
    mounted = mounts.below(path.parent, Path("/proc/thread-self/mountinfo").read_text())
    for target in (path.parent, path):
        for _ in range(mounted.count(target)):
            with contextlib.suppress(OSError):  # it was below another mount that is gone
                libc.unmount(target, libc.MNT_DETACH)
    path.unlink(missing_ok=True)


def inside(name: str, work: Callable[[], T]) -> T:
    """Run a short function in a new thread that has entered a namespace. Blocks."""

    def entered() -> T:
        with (NAMESPACES / name).open() as file:
            libc.setns(file.fileno(), libc.CLONE_NEWNET)
        return work()

    return in_thread(entered)


def kill_inside(name: str) -> tuple[set[int], set[int]]:
    """Kill all processes in a namespace: returns those found, and those that survive 15 s. Blocks."""
    if not exists(name):
        return set(), set()
    inode = (NAMESPACES / name).stat().st_ino
    return processes.kill_all(lambda: _occupants(inode) - {os.getpid()}, DEADLINE)


def _occupants(inode: int) -> set[int]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {pid for pid in pids if _network(pid) == inode}


def _network(pid: int) -> int | None:
    """The namespace of a process; None if it has ended or is a zombie."""
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return None


def set_kernel(name: str, settings: Mapping[str, str]) -> None:
    """Set network settings (paths below /proc/sys/net) of one namespace, never of the host."""

    def work() -> None:
        for key, value in settings.items():
            Path("/proc/sys/net", key).write_text(value)

    inside(name, work)


def in_thread(work: Callable[[], T]) -> T:
    """Run a function in a new thread, whose namespaces end with it. Blocks."""
    result: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            result.append(work())
        except BaseException as error:  # noqa: BLE001  handed to the caller below
            failure.append(error)

    thread = threading.Thread(target=body, name="namespace")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]
