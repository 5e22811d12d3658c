"""Ends processes in our network namespaces."""

import os
from pathlib import Path

from hetzner_machines import namespaces, processes

DEADLINE = 15.0


def kill_inside(namespace: str) -> tuple[set[int], set[int]]:
    """Kill all processes in a network namespace: returns those found, and those that survive 15 s. Blocks."""
    if not namespaces.exists(namespace):
        return set(), set()
    inode = namespaces.inode(namespace)
    return processes.kill_all(lambda: _inside(inode) - {os.getpid()}, DEADLINE)


def _inside(inode: int) -> set[int]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {pid for pid in pids if _network(pid) == inode}


def _network(pid: int) -> int | None:
    """The namespace of a process; None if it has ended or is a zombie."""
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return None
