"""Whether a folder that can't be seen is gone, or only looked for from somewhere else.

Callers that share a user's cache need not share a file system: one may sit in a container, in a chroot, or
have a /tmp of its own. A folder is proved to be gone only by the very folders that it lay in: when one of
them is here, and has no entry of that name any more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from hetzner_machines.processes import boot_id

Identity = tuple[int, int, int, str]
"""One folder: device, inode, id of the file system, and the id of the boot where the device is no disk.

Devices without a disk (overlays, memory) get their numbers anew with every boot.
"""


def identity(folder: Path) -> Identity | None:
    """What a folder is, by whatever path it is reached; None where there is none.

    Raises:
        OSError: It can't be looked at.
    """
    try:
        found, system = folder.stat(), os.statvfs(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    boot = "" if os.major(found.st_dev) else boot_id()
    return found.st_dev, found.st_ino, system.f_fsid, boot


def chain(folder: Path) -> list[Identity]:
    """A folder and all that it lies in, from the root on.

    Raises:
        OSError: One of them can't be looked at.
    """
    return [known for part in _parts(folder) if (known := identity(part))]


def is_gone(
    folder: Path, noted: Sequence[Identity], look: Callable[[Path], Identity | None] = identity
) -> bool:
    """Whether a folder is certainly gone.

    Args:
        folder: Its path, as the one saw it who noted.
        noted: Its :func:`chain` at that time.
        look: What is at a path now.
    """
    parts = _parts(folder)
    if len(noted) != len(parts):
        return False
    for before, (part, known) in zip([None, *noted], zip(parts, noted, strict=True), strict=False):
        try:
            now = look(part)
        except OSError:
            return False
        if now is None:
            # A file system that was mounted there may only have been taken off.
            return before is not None and before[0] == known[0]
        if now != known:
            return False
    return False


def _parts(folder: Path) -> list[Path]:
    return [*reversed(folder.parents), folder]
