"""Gives the owner of a clone what ``sudo ./dev`` makes in it, but for the machines' own files."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

OF_ROOT = (".sandbox", ".git")
"""Folders that stay root's: machines' disks have owners of their own, and root's commands need the rest."""


def hand_over(root: Path, environment: Mapping[str, str]) -> None:
    """Give the clone's owner what belongs to root in it, where root came by sudo; otherwise change nothing.

    Hard links stay: the other name of such a file may be anywhere. No link is followed.

    Args:
        root: The clone.
        environment: Says by ``SUDO_UID`` that sudo was used.
    """
    owner = root.stat()
    if os.geteuid() != 0 or environment.get("SUDO_UID") != str(owner.st_uid) or owner.st_uid == 0:
        return
    for folder, folders, files in os.walk(root):
        if Path(folder) == root:
            folders[:] = [name for name in folders if name not in OF_ROOT]
        for name in (*folders, *files):
            path = os.path.join(folder, name)  # noqa: PTH118  there are thousands
            try:
                found = os.lstat(path)
                if found.st_uid == 0 and (found.st_nlink == 1 or stat.S_ISDIR(found.st_mode)):
                    os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
            except FileNotFoundError:
                continue  # another command's
