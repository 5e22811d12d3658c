"""A mount namespace that shares nothing with the host's, also where the host is a chroot."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from sandbox.machines import libc

_PRIVATE = libc.MS_REC | libc.MS_PRIVATE


def leave_the_hosts() -> str:
    """Cut the mounts of the calling thread, which has unshared its mount namespace, off from the host's.

    In a chroot the root need not be a mount: the kernel then neither makes it private nor lets it be pivoted.
    The thread's root becomes that of the whole namespace, as entering a mount namespace does.

    Returns:
        What absolute paths must begin with from now on to mean the same as before; empty outside of a chroot.

    Raises:
        OSError: not permitted.
    """
    try:
        libc.mount("none", Path("/"), flags=_PRIVATE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    else:
        return ""
    before = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        with Path("/proc/thread-self/ns/mnt").open() as own:
            libc.setns(own.fileno(), libc.CLONE_NEWNS)
        libc.mount("none", Path("/"), flags=_PRIVATE)
        prefix = os.readlink(f"/proc/self/fd/{before}")  # noqa: PTH115  a path as this thread's root sees it
    finally:
        os.close(before)
    return "" if prefix == "/" else prefix
