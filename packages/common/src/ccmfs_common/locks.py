"""Locks between processes: files that the kernel unlocks when the process ends."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path) -> Iterator[int | None]:
    """Hold a lock, or yield None if another process holds it.

    Args:
        path: The lock's file.

    Returns:
        The descriptor, which child processes can inherit to hold the lock, too.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield file.fileno()


@contextmanager
def awaited(path: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock, after another process has released it.

    Args:
        path: The lock's file; creates the folder.
        waits: Called if another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
