"""How many machines the kernel's limits allow; the limits themselves are the administrator's."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

PER_MACHINE = 20  # inotify instances of systemd, cloud-init, containerd, kubelet and a few Pods
INOTIFY = "anon_inode:inotify"
LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")


def inotify_needed(machines: int, others: int) -> int:
    """Inotify instances with so many machines of this site, and so many instances in use elsewhere."""
    return machines * PER_MACHINE + others


def inotify_limit() -> int:
    """How many inotify instances the host allows one user."""
    return int(LIMIT.read_text())


def inotify_used(except_in: Collection[int], proc: Path = Path("/proc")) -> int:
    """Inotify instances that our user has in use on the host, besides those of some process namespaces.

    Args:
        except_in: numbers of process namespaces, as in /proc/PID/ns/pid.
        proc: where to look.
    """
    used = 0
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        try:
            if process.stat().st_uid != os.geteuid() or _namespace(process) in except_in:
                continue
            fds = process / "fd"
            used += sum(os.readlink(fds / fd) == INOTIFY for fd in os.listdir(fds))  # noqa: PTH115, PTH208
        except OSError:  # ended meanwhile
            continue
    return used


def process_namespace(pid: int, proc: Path = Path("/proc")) -> int | None:
    """The number of a process's namespace; None when it has ended."""
    try:
        return _namespace(proc / str(pid))
    except OSError:
        return None


def _namespace(process: Path) -> int:
    return (process / "ns/pid").stat().st_ino
