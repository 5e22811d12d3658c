"""Child processes that end with this process, and the memory and time that they use."""

import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

STOP_SECONDS = 10.0
_DEATH_SIGNAL = 1  # prctl: the signal that a process gets when its parent dies
TICK = 1 / os.sysconf("SC_CLK_TCK")
"""Seconds in which the kernel counts the time of processes: nothing shorter is known."""
_MIB = 1024.0  # KiB


@contextmanager
def child(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    stdout: int | None = None,
    directory: Path | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """A process for the time of a block."""
    with log.open("a") as file:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=file if stdout is None else stdout,
            stderr=file,
            text=True,
            # Ctrl-C is ours to handle, so that things end in order.
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - it makes one system call
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Have a process end, gently first; returns when it has."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


RESIDENT, PROPORTIONAL, ANONYMOUS = "Rss:", "Pss:", "Anonymous:"
"""Resident memory; the same, where a shared page counts in parts; memory that no file backs."""


def memory_mib(pid: int, kind: str) -> float:
    """Memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / _MIB


def children_cpu_seconds() -> float:
    """User and system time of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_seconds(pid: int) -> float:
    """User and system time so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)
