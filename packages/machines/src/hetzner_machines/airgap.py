"""Images that a person has loaded, kept for machines that are made later.

k3s imports every archive in its folder for clusters without an Internet when it starts. A new machine's disk
has what is kept here in that folder, so k3s finds it, be it the stand-in or a genuine one.
"""

from __future__ import annotations

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
"""Where k3s looks, from a machine's root."""
_KEPT = re.compile(r"loaded-([0-9]{6})\.tar")
_NEW = ".new-"


class Airgap:
    """The archives that are kept.

    The order of their names is the order in which they were loaded, and k3s imports in that order: what was
    loaded last counts where two have an image of one name.

    Args:
        state: Folder of the site; they lie in ``images/`` below it, which is made where it is missing.
    """

    def __init__(self, state: Path) -> None:
        self._folder = state / "images"
        self.scratch = self._folder / ".loading"
        """For passing files on the disk of the archives; there for whoever is :meth:`loading`."""

    def archives(self) -> list[Path]:
        """All of them, the oldest first."""
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return sorted(path for path in found if _KEPT.fullmatch(path.name))

    @contextmanager
    def loading(self, waits: Callable[[], None]) -> Iterator[None]:
        """Be the only one who loads images: each takes away what the one before it is still placing.

        :attr:`scratch` is empty then, and gone afterwards; what one left who was killed goes now.

        Args:
            waits: Called where another one loads; it is waited for.

        Raises:
            OSError: It can't be made.
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
        """Keep one more.

        Args:
            write: Writes the archive into a file.
            replaces: Whether a machine that has this one needs that older one no more.

        Returns:
            The archive, and the file names of those that it replaces, which are gone.

        Raises:
            OSError: It can't be written; nothing is changed then.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix=_NEW) as file:
            write(file)
            file.flush()
            with locks.awaited(self._folder / ".lock"):
                before = self.archives()
                # Numbers are never given twice while one with a higher one is there: k3s looks at names.
                number = int(before[-1].stem.rpartition("-")[2]) + 1 if before else 1
                path = self._folder / f"loaded-{number:06}.tar"
                os.link(file.name, path)
                gone = [old for old in before if replaces(old)]
                for old in gone:
                    old.unlink()
        return path, [old.name for old in gone]

    @contextmanager
    def placed(self, root: Path) -> Iterator[None]:
        """Put all of them into the disk of a machine that was never started.

        Whoever loads another one meanwhile waits until the disk is where it is looked for, or this one waits:
        no machine is missed.

        Raises:
            OSError: One of them can't be put there.
        """
        with locks.awaited(self._folder / ".lock"):
            for path in self.archives():
                self.place(path, (), root)
            yield

    def place(self, archive: Path, replaced: Sequence[str], root: Path) -> None:
        """Put one into the disk of a machine, running or not, beside nothing that it replaces.

        It is a hard link where that can be: of what k3s only reads, all machines have the one copy. No
        symbolic link of the machine's is followed, for those lead about on the host.

        Args:
            archive: As :meth:`keep` returned it.
            replaced: Likewise.
            root: The machine's ``/``, or the parts of it that have the folder.

        Raises:
            OSError: It can't be put there; what is replaced stays then.
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
    """The descriptor of a folder, made where it is missing; on the way to it are folders only."""
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
    """A whole file or none under its name: k3s may look at any moment."""
    partial = f".{archive.name}.new"
    with suppress(FileNotFoundError):  # of an earlier attempt, or the machine's own: a pipe, another's link
        os.unlink(partial, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with (
        archive.open("rb") as source,
        os.fdopen(os.open(partial, flags, 0o644, dir_fd=folder), "wb") as target,
    ):
        shutil.copyfileobj(source, target, 1024 * 1024)
    os.rename(partial, archive.name, src_dir_fd=folder, dst_dir_fd=folder)
