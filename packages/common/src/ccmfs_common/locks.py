"""Locks between processes: files that the kernel lets go of when whoever holds them ends, however that is."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path) -> Iterator[int | None]:
    """Hold a lock for something that one process does at a time.

    Args:
        path: The lock's file.

    Returns:
        Its descriptor, for programs that are to hold it, too; None where another process has it.
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
    """The same, after whoever has it.

    Args:
        path: The lock's file; its folder is made where it is missing.
        waits: Called where another process has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
