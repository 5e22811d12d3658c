"""Tests that run at the same time share what the host has least of: its inotify instances.

A test's marks say which machines it boots: ``cluster`` one control server and two workers, unless it says
others as ``cluster(controls=3, workers=1)`` does; ``machines`` a few without Kubernetes, unless it says which
likewise. A control plane on the host, as a hollow cluster has it, needs about what a machine does. What they
need is taken before a module's first such test, for the whole module, and given back after its last.

Two environments fit beside each other, and small modules beside these: so one of them comes after every two
large ones.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import pytest

from sandbox.machines import capacity

FEW_MACHINES = 24
POLL_SECONDS = 0.2


def needed(item: pytest.Item) -> int:
    """Inotify instances that the module of a test takes at most.

    Args:
        item: The test.
    """
    marks = [mark for name in ("cluster", "machines") if (mark := item.get_closest_marker(name))]
    said = {name: number for mark in marks for name, number in mark.kwargs.items()}
    if said or item.get_closest_marker("cluster"):
        servers = {"controls": 1, "workers": 2} | said
        return capacity.instances_needed(sum(servers.values()), servers["controls"])
    return FEW_MACHINES if marks else 0


def in_turn(modules: Mapping[Path, int]) -> list[Path]:
    """The order in which modules begin: small ones among the large ones, which otherwise keep their order.

    Args:
        modules: What each takes at most, in the order in which pytest found them.
    """
    large = [module for module, number in modules.items() if number > FEW_MACHINES]
    small = [module for module, number in modules.items() if number <= FEW_MACHINES]
    ordered: list[Path] = []
    for place, module in enumerate(large):
        ordered.append(module)
        if place % 2 and small:
            ordered.append(small.pop(0))
    return ordered + small


class Share:
    """What this process has of a number of things that processes share.

    A byte of a file stands for each thing; whoever has locked it has the thing. So the kernel gives back what
    a process had, however that ends.

    Args:
        file: Which file; those who share name the same one.
        total: How many things there are.
    """

    def __init__(self, file: Path, total: int) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file.open("ab")
        self._total = total
        self.held: set[int] = set()

    def take(self, number: int) -> None:
        """Wait until so many are free, behind those who asked before; a process that has any asks no more.

        Args:
            number: How many; more than there are means all.
        """
        if self.held or not number:
            return
        queue = self._total  # the byte behind those of the things: who has it is the next one
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, queue)
        while len(self.held) < min(number, self._total):
            free = (thing for thing in range(self._total) if thing not in self.held and self._locked(thing))
            self.held.update(islice(free, number - len(self.held)))
            time.sleep(POLL_SECONDS)
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, queue)

    def give_back(self) -> None:
        """Give back what this process has."""
        if self.held:
            fcntl.lockf(self._file, fcntl.LOCK_UN, self._total, 0)
            self.held.clear()

    def close(self) -> None:
        """Give everything back for good."""
        self._file.close()

    def _locked(self, thing: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, thing)
        except (BlockingIOError, PermissionError):
            return False
        return True
