"""Container images that users loaded, kept for machines that are made later.

When k3s starts, it imports every archive in its air-gap folder. A new machine's disk has the kept archives in
that folder, so both the stand-in for k3s and a real k3s find them.
"""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ccmfs_common import locks

FOLDER = "var/lib/rancher/k3s/agent/images"
"""The folder from which k3s imports images, relative to the root folder of a machine."""
_KEPT = re.compile(r"loaded-([0-9]{6})\.tar")
_NEW = ".new-"


class Airgap:
    """The kept archives.

    Their names have the order in which they were loaded, and k3s imports in that order: if two have an image
    of one name, the last one counts.
    """

    def __init__(self, state: Path) -> None:
        self._folder = state / "images"
        self.scratch = self._folder / ".loading"
        """The folder for temporary files, on the same disk as the archives. The folder exists only while
        archives are loaded."""

    def archives(self) -> list[Path]:
        """All archives, the oldest first."""
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return sorted(path for path in found if _KEPT.fullmatch(path.name))

    @contextmanager
    def loading(self, waits: Callable[[], None]) -> Iterator[None]:
        """Load images exclusively: a command deletes archives that an earlier one may still be placing.

        :attr:`scratch` is empty at first, and deleted at the end. Leftovers of a killed command go first.
        """
        with locks.awaited(self._folder / ".loading.lock", waits):
            for left in self._folder.glob(f"{_NEW}*"):
                left.unlink(missing_ok=True)
            if self.scratch.exists():
                shutil.rmtree(self.scratch)
            self.scratch.mkdir()
            try:
                yield
            finally:
                shutil.rmtree(self.scratch)

    def keep(
        self, write: Callable[[IO[bytes]], None], replaces: Callable[[Path], bool]
    ) -> tuple[Path, list[str]]:
        """Keep an archive, and delete those that ``replaces`` names; returns it and their file names.

        After an OSError nothing is changed.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix=_NEW) as file:
            write(file)
            file.flush()
            with locks.awaited(self._folder / ".lock"):
                before = self.archives()
                # A number is never reused while a higher one exists: k3s imports by name.
                number = int(before[-1].stem.rpartition("-")[2]) + 1 if before else 1
                path = self._folder / f"loaded-{number:06}.tar"
                os.link(file.name, path)
                gone = [old for old in before if replaces(old)]
                for old in gone:
                    old.unlink()
        return path, [old.name for old in gone]

    @contextmanager
    def placed(self, root: Path) -> Iterator[None]:
        """Put all archives into the disk of a machine that was never started.

        A command that keeps another archive waits until the disk has its final path, or this call waits for
        that command. So every machine gets every archive.
        """
        with locks.awaited(self._folder / ".lock"):
            for path in self.archives():
                self.place(path, (), root)
            yield

    def place(self, archive: Path, replaced: Sequence[str], root: Path) -> None:
        """Put an archive into the disk of a machine, running or not, and delete those that it replaces.

        It is a hard link if possible: k3s only reads it, so all machines share one copy. Symbolic links of
        the machine aren't followed, because they may lead to any path of the host.
        """
        with _below(root, FOLDER) as folder:
            try:
                os.link(archive, archive.name, dst_dir_fd=folder)
            except FileExistsError:
                return
            except OSError as error:
                if error.errno not in {errno.EXDEV, errno.EMLINK, errno.EPERM}:
                    raise
                _copy(archive, folder)
            for old in replaced:
                with suppress(FileNotFoundError):
                    os.unlink(old, dir_fd=folder)


@contextmanager
def _below(root: Path, path: str) -> Iterator[int]:
    """The descriptor of a folder, made if it is missing; its path may have no symbolic links."""
    descriptor = os.open(root, os.O_DIRECTORY)
    try:
        for name in path.split("/"):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=descriptor)
            inner = os.open(name, os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _copy(archive: Path, folder: int) -> None:
    """Write the file atomically: k3s may read it at any moment."""
    partial = f".{archive.name}.new"
    with suppress(FileNotFoundError):  # of an earlier attempt, or the machine's: a pipe, a link
        os.unlink(partial, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with (
        archive.open("rb") as source,
        os.fdopen(os.open(partial, flags, 0o644, dir_fd=folder), "wb") as target,
    ):
        shutil.copyfileobj(source, target, 1024 * 1024)
    os.rename(partial, archive.name, src_dir_fd=folder, dst_dir_fd=folder)
