"""More inotify instances while tests run as root: the kernel's default is enough for two environments."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hetzner_machines.capacity import LIMIT

WANTED = 1024


@contextmanager
def raised(lock: Path, limit: Path = LIMIT) -> Iterator[None]:
    """Raise the limit for a block, and put it back when no other run needs it.

    The lock file holds the limit that was there before. Each run holds the lock shared, so the run that gets
    it exclusively is the last one. After a run that was killed, the next one puts back the recorded limit.
    """
    if os.geteuid() != 0 or not os.access(limit, os.W_OK):
        yield
        return
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        before = int(limit.read_text())
        if before < WANTED:
            file.truncate(0)
            file.write(str(before))
            file.flush()
            limit.write_text(str(WANTED))
        try:
            yield
        finally:
            _put_back(file.fileno(), lock, limit)


def _put_back(file: int, lock: Path, limit: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another run continues
        return
    before = lock.read_text(encoding="utf-8")
    if before and int(limit.read_text()) == WANTED:
        limit.write_text(before)
    lock.write_text("", encoding="utf-8")
