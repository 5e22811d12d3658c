"""Locks between processes: files that the kernel unlocks when the process ends."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path) -> Iterator[int | None]:
    """Hold the lock of a file: its descriptor, which children can inherit; None if another process has it."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield file.fileno()


@contextmanager
def awaited(path: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of a file after another process has released it; ``waits`` is called if one holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
