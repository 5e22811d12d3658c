"""Mount namespaces that share nothing with the host's, also in a chroot; and mount points."""

import errno
import os
import re
from pathlib import Path

from hetzner_machines import libc

MOUNTS = Path("/proc/self/mountinfo")
_PRIVATE = libc.MS_REC | libc.MS_PRIVATE


def leave_the_hosts() -> str:
    """Detach the mounts of the calling thread, which has a new mount namespace, from the host's.

    In a chroot, the root isn't always a mount. If not, the kernel can neither make it private nor pivot it.
    The thread's root becomes the root of the whole namespace, as entering a mount namespace does. Returned is
    the prefix for absolute paths from now on, empty outside of a chroot.
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


def below(folder: Path, mounts: str | None = None) -> list[Path]:
    """Mount points at and below a folder, without symbolic links in its path, the deepest first.

    Removing files must stop there: mounted file systems may be the user's.
    """
    lines = (MOUNTS.read_text() if mounts is None else mounts).splitlines()
    points = [re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4]) for line in lines]
    return sorted((Path(point) for point in points if Path(point).is_relative_to(folder)), reverse=True)
