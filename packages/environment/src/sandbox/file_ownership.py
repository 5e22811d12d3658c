"""Gives the user of ``sudo ./dev`` what it makes in their clone and cache, except for machines' files."""

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

OF_MACHINES = ("machines", "load-balancers", "volumes", "snapshots", "registry", "images")
"""Folders in ``.sandbox`` that ``hand_over`` skips, because files in these folders have several owners."""
IMAGE = "image"
"""The folder in the cache that contains the machines' operating system. Its files belong to several users."""
_DEPTH = 2  # folders of the user's below it have nothing new of root's in them


def hand_over(root: Path, cache: Path, environment: Mapping[str, str]) -> None:
    """Under sudo, give root's files in the user's own clone and cache to the user who called sudo.

    Hard links stay: the other name of such a file may be anywhere. No link is followed.
    """
    user = environment.get("SUDO_UID", "")
    if os.geteuid() != 0 or not user.isdecimal() or user == "0":
        return
    owner = root.stat()
    if str(owner.st_uid) == user:
        state = root / ".sandbox"
        _give(root, owner.st_uid, owner.st_gid, (root / ".git", *(state / name for name in OF_MACHINES)))
    if cache.parent.is_dir() and str(cache.parent.stat().st_uid) == user:
        group = cache.parent.stat().st_gid
        _give_one(cache, int(user), group)
        _give(cache, int(user), group, (cache / IMAGE,), depth=_DEPTH)


def _give(top: Path, user: int, group: int, others: Collection[Path], depth: int | None = None) -> None:
    for place, folders, files in os.walk(top):
        folder = Path(place)
        folders[:] = [name for name in folders if folder / name not in others]
        for name in files:
            _give_one(folder / name, user, group)
        deep = depth is not None and len(folder.relative_to(top).parts) >= depth
        # Not "any": each is given.
        given = [_give_one(folder / name, user, group) for name in folders]
        folders[:] = [name for name, new in zip(folders, given, strict=True) if new or not deep]


def _give_one(path: Path, user: int, group: int) -> bool:
    """Give one file or folder to a user; False if its owner stays."""
    try:
        found = path.lstat()
        if found.st_uid != 0 or (found.st_nlink != 1 and not stat.S_ISDIR(found.st_mode)):
            return False
        os.chown(path, user, group, follow_symlinks=False)
    except FileNotFoundError:
        return False  # another command's
    return True
