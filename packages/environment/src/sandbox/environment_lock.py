"""Commands that change a clone's environment take turns; one that would get in between is refused.

The lock lies in the cache: './dev down' removes everything else that a clone has, and whoever came then would
lock another file. The kernel takes a lock from whoever ends, however that is.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.errors import EnvironmentBusy
from sandbox.site import Clone


@contextmanager
def changing(clone: Clone, name: str) -> Iterator[None]:
    """Change the environment, while nobody else changes or needs it.

    Raises:
        EnvironmentBusy: Somebody does.
    """
    with _locked(clone, name, fcntl.LOCK_EX) as descriptor:
        os.pwrite(descriptor, f"'./dev {name}', process {os.getpid()}".encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)


@contextmanager
def needing(clone: Clone, name: str) -> Iterator[None]:
    """Need the environment as it is, beside others that do.

    Raises:
        EnvironmentBusy: Somebody changes it.
    """
    with _locked(clone, name, fcntl.LOCK_SH):
        yield


@contextmanager
def _locked(clone: Clone, name: str, how: int) -> Iterator[int]:
    descriptor = os.open(clone.cache / f"site-{clone.id}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            # Nothing stands there while it is only needed, or where the one who has it has just begun.
            holder = os.pread(descriptor, 100, 0).decode(errors="replace") or "another command"
            raise EnvironmentBusy(holder, name) from None
        os.ftruncate(descriptor, 0)  # what one who was killed has said of itself
        yield descriptor
    finally:
        os.close(descriptor)
