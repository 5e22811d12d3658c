"""Processes by identity, so that a reused process ID is never signalled."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Identity:
    """One process, distinguished from later ones with the same number."""

    pid: int  # its number
    start_time: int  # in clock ticks since the host's boot
    boot_id: str  # of the host's boot


def boot_id() -> str:
    """The id of the host's current boot; empty on other systems."""
    file = PROC / "sys/kernel/random/boot_id"
    return file.read_text().strip() if file.exists() else ""


def parse_stat(text: str) -> tuple[str, int]:
    """State letter and start time from /proc/PID/stat; the name in parentheses may have any characters."""
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def identify(pid: int) -> Identity | None:
    """The identity of a running process; None if it has ended or is a zombie."""
    try:
        state, start_time = parse_stat((PROC / str(pid) / "stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else Identity(pid, start_time, boot_id())


def alive(process: Identity) -> bool:
    """Whether this process still runs."""
    return identify(process.pid) == process


def open_process(process: Identity) -> int | None:
    """A pidfd of this process, for the caller to close; None if it has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if alive(process):  # checked after opening: from here on the pidfd is that process
        return descriptor
    os.close(descriptor)
    return None


def send(process: Identity, number: int) -> bool:
    """Signal this process; False if it has ended."""
    descriptor = open_process(process)
    if descriptor is None:
        return False
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def wait_gone(process: Identity, timeout: float) -> bool:
    """Wait until this process has ended; False after ``timeout`` seconds. Blocks."""
    descriptor = open_process(process)
    if descriptor is None:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(timeout * 1000))
    finally:
        os.close(descriptor)


def commands() -> Iterator[tuple[int, bytes]]:
    """The ID and the command line of each process, with a zero byte after each word."""
    for folder in PROC.glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            command = (folder / "cmdline").read_bytes()
            yield int(folder.name), command


def kill_all(find: Callable[[], set[int]], seconds: float) -> tuple[set[int], set[int]]:
    """Kill processes until ``find`` returns none; returns those found, and those left in the end. Blocks."""
    deadline, found = time.monotonic() + seconds, set[int]()
    while left := find():
        found |= left
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            reap(pid)
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return found, left


def reap(pid: int) -> None:
    """Collect the exit status of a child that has ended; ignores other processes."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
