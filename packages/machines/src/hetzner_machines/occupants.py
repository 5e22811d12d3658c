"""Ends processes in our network namespaces."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from hetzner_machines import namespaces

DEADLINE = 15.0


def kill_inside(namespace: str) -> tuple[set[int], set[int]]:
    """Kill all processes in a network namespace: returns those found, and those that survive 15 s. Blocks."""
    if not namespaces.exists(namespace):
        return set(), set()
    inode, deadline = namespaces.inode(namespace), time.monotonic() + DEADLINE
    found: set[int] = set()
    while True:
        left = {pid for pid in _processes() if _network(pid) == inode} - {os.getpid()}
        found |= left
        for pid in left:
            _kill(pid)
        if not left or time.monotonic() > deadline:
            return found, left
        time.sleep(0.01)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)
    except (ProcessLookupError, ChildProcessError):
        return


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _network(pid: int) -> int | None:
    """The namespace of a process; None if it has ended or is a zombie."""
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return None
