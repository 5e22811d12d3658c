"""What a sandbox costs that nobody uses: ``./dev bench footprint [--seconds 60]``.

Of this clone's running sandbox, which ``./dev up`` has made and which has been left alone for two minutes:
memory and processor time of all of its processes, by program. Memory is the proportional set size, in which
what several processes share (programs, libraries) counts once; processor time is that of --seconds, in
percent of one core. The bounds are for a control server and two workers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bench.lab.processes import cpu_seconds, proportional_mib
from bench.lab.report import BenchError, Row, main
from sandbox import daemon
from sandbox.site import open_clone

ROOT = Path(__file__).resolve().parents[1]
MOST_MIB, MOST_PERCENT = 1536, 5


def parents() -> dict[int, int]:
    """The parent of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = int(path.read_text().rpartition(") ")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return found


def family(root: int, parent_of: Mapping[int, int]) -> Iterator[int]:
    """A process and all that come from it."""
    yield root
    for pid, parent in parent_of.items():
        if parent == root:
            yield from family(pid, parent_of)


def used(pids: Iterable[int]) -> dict[int, float]:
    """The processor time of each process so far, in seconds, of those that are still there."""
    found = {}
    for pid in pids:
        try:
            found[pid] = cpu_seconds(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return found


def name(pid: int) -> str:
    """A process as a row of the table names it."""
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    program = Path(words[0]).name
    if program.startswith("python"):
        return next(known for mark, known in _PYTHON.items() if mark in words)
    return next((known for mark, known in _SYSTEM.items() if program.startswith(mark)), program)


_PYTHON = {
    "serve": "emulated cloud",
    "/usr/local/bin/k3s": "stand-in for k3s",
    "ccm": "CCM",
    "": "other Python",
}
_SYSTEM = {"containerd-shim": "containerd-shim", "systemd": "systemd", "init": "systemd", "sshd": "sshd"}


async def measure(arguments: argparse.Namespace) -> list[Row]:
    """All rows, the largest first."""
    running = daemon.find(open_clone(ROOT, os.environ))
    if running is None:
        raise BenchError("no sandbox runs in this clone: ./dev up makes one")
    before = used(sorted(family(running.pid, parents())))
    await asyncio.sleep(arguments.seconds)
    found: dict[str, list[tuple[float, float]]] = {}
    for pid, until_then in before.items():
        try:
            figures = proportional_mib(pid), 100 * (cpu_seconds(pid) - until_then) / arguments.seconds
            found.setdefault(name(pid), []).append(figures)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    sums = {program: tuple(map(sum, zip(*each, strict=True))) for program, each in found.items()}
    rows = []
    for program, (mib, percent) in sorted(sums.items(), key=lambda item: -item[1][0]):
        label = f"{program} ({len(found[program])})"
        rows += [Row(f"{label}, memory", mib, unit="MiB"), Row(f"{label}, processor", percent, unit="%")]
    mib, percent = map(sum, zip(*sums.values(), strict=True))
    return [
        Row(f"all {sum(map(len, found.values()))} processes, memory", mib, MOST_MIB, "MiB"),
        Row("all, processor", percent, MOST_PERCENT, "%"),
        *rows,
    ]


def options(parser: argparse.ArgumentParser) -> None:
    """Arguments of our own."""
    parser.add_argument(
        "--seconds", type=float, default=60, metavar="N", help="how long to watch (default: 60)"
    )


if __name__ == "__main__":
    sys.exit(main("An idle sandbox", __doc__, measure, options, peer=False))
