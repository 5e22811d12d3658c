"""Commands that change a clone's environment take turns; one that would get in between is refused.

The lock is in the cache, because './dev down' removes the files in the clone: later commands would lock a new
file. The kernel releases the lock when the process that holds it ends.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.errors import EnvironmentBusy
from sandbox.site import Clone


@contextmanager
def changing(clone: Clone, name: str) -> Iterator[None]:
    """Change the environment, with an exclusive lock; EnvironmentBusy if another command is at work."""
    with _locked(clone, name, fcntl.LOCK_EX) as descriptor:
        os.pwrite(descriptor, f"'./dev {name}', process {os.getpid()}".encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)


@contextmanager
def needing(clone: Clone, name: str) -> Iterator[None]:
    """Need the environment as it is, beside others that do."""
    with _locked(clone, name, fcntl.LOCK_SH):
        yield


@contextmanager
def _locked(clone: Clone, name: str, how: int) -> Iterator[int]:
    descriptor = os.open(clone.cache / f"site-{clone.id}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            # Empty while the lock is shared, or before its holder has written to it.
            holder = os.pread(descriptor, 100, 0).decode(errors="replace") or "another command"
            raise EnvironmentBusy(holder, name) from None
        os.ftruncate(descriptor, 0)  # of a process that was killed
        yield descriptor
    finally:
        os.close(descriptor)
