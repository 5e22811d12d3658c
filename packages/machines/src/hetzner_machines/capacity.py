"""Inotify instances: the kernel allows a user few of them, and every machine needs some.

The needs of a machine were counted in /proc/PID/fd every second, from the first boot of five control servers
to their end: systemd has 3, containerd 2, kube-proxy 1, kubelet 6; on a control server the API server has 6
and the controller manager 2. Once per cluster, the leading controller manager has 4 more, and metrics-server
1. The needs of the user's Pods come on top.
"""

import errno
import os
import resource
from collections.abc import Collection
from pathlib import Path

from hetzner_machines import libc

INSTANCES_OF_A_MACHINE = 12
INSTANCES_OF_A_CONTROL_PLANE = 8
INSTANCES_OF_A_CLUSTER = 6
INOTIFY = "anon_inode:inotify"
LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
SETTING = "fs.inotify.max_user_instances"
_SPARE_DESCRIPTORS = 64


def instances_needed(machines: int, control_planes: int) -> int:
    """Inotify instances for machines, and for control planes on these machines or on the host."""
    each = machines * INSTANCES_OF_A_MACHINE + control_planes * INSTANCES_OF_A_CONTROL_PLANE
    return each + (INSTANCES_OF_A_CLUSTER if control_planes else 0)


def instances_allowed() -> int:
    """The host's limit of inotify instances per user."""
    return int(LIMIT.read_text())


def instances_free(wanted: int) -> int:
    """The number of inotify instances that our user can create now, at most ``wanted``; tries to create them.

    A count in /proc would miss those of containers, whose processes are invisible but have our user.
    """
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    tried = max(0, min(wanted, descriptors - _SPARE_DESCRIPTORS))
    held: list[int] = []
    try:
        while len(held) < tried:
            held.append(libc.inotify())
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        return len(held)
    finally:
        for descriptor in held:
            os.close(descriptor)
    return wanted  # our own descriptors don't suffice for a better test


def instances_inside(namespaces: Collection[int], proc: Path = Path("/proc")) -> int:
    """Inotify instances in use in process namespaces, by inode number as in /proc/PID/ns/pid."""
    used = 0
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        try:
            if _namespace(process) not in namespaces:
                continue
            fds = process / "fd"
            used += sum(os.readlink(fds / fd) == INOTIFY for fd in os.listdir(fds))  # noqa: PTH115, PTH208
        except OSError:  # ended meanwhile
            continue
    return used


def process_namespace(pid: int, proc: Path = Path("/proc")) -> int | None:
    """The inode number of a process's namespace; None if it has ended."""
    try:
        return _namespace(proc / str(pid))
    except OSError:
        return None


def remedy(allowed: int, needed: int) -> str:
    """The command that raises the limit."""
    return f"sudo sysctl -w {SETTING}={max(1024, 2 * (allowed + needed))}"


def _namespace(process: Path) -> int:
    return (process / "ns/pid").stat().st_ino
