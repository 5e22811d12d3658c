"""A folder that is whole or not there."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from release.errors import ReleaseError


@contextmanager
def whole(target: Path) -> Iterator[tuple[Path, Path]]:
    """A folder to be filled, which gets its name when it is complete, and one for temporary files.

    A crash leaves no folder of that name; the next attempt removes the leftovers.
    """
    _must_be_free(target)
    place = target.with_name(f".{target.name}.partial")
    place.mkdir(parents=True, exist_ok=True)
    held = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ReleaseError(
                f"another './dev release' is writing to {target}. Wait until the other command has finished"
            ) from error
        _empty(place)
        folder, meanwhile = place / "folder", place / "meanwhile"
        folder.mkdir()
        meanwhile.mkdir()
        try:
            yield folder, meanwhile
            _must_be_free(target)
            folder.rename(target)
        finally:
            shutil.rmtree(place)
    finally:
        os.close(held)


def _must_be_free(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise ReleaseError(
            f"the folder {target} already exists, and './dev release' never overwrites a release. Remove "
            "the folder, or choose another folder with '--output'"
        )


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
