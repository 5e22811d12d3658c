"""Volumes: sparse files on the plain disk, and the loop devices through which machines use them."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from hetzner_emulator.backend import VolumeSpec
from hetzner_machines import disk
from hetzner_machines.errors import VolumeBusy
from hetzner_machines.runner import run_blocking

GIB = 2**30
RELEASE_DEADLINE = 5.0  # seconds; an unmounted file system may take a moment
DEVICES = Path("/sys/block")
MAKERS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"),
    "xfs": ("mkfs.xfs", "-q", "-K"),
}


def loops(folder: Path) -> Iterator[tuple[int, Path]]:
    """Number and file of each loop device whose file is in a folder."""
    for backing in sorted(DEVICES.glob("loop*/loop/backing_file")):
        try:
            path = Path(backing.read_text().rstrip("\n").removesuffix(" (deleted)"))
        except OSError:  # removed meanwhile
            continue
        if path.parent == folder:
            yield int(re.sub("[^0-9]", "", backing.parent.parent.name)), path


class Volumes:
    """All volumes of a site, each a file in a folder whose path has no symbolic links. Everything blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, volume: VolumeSpec) -> None:
        """Make a volume, or enlarge it."""
        path, size = self._file(volume.id), volume.size * GIB
        with disk.explained(path):
            if not path.exists():
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                new = path.with_name(f"{path.name}.new")
                with new.open("wb") as file:
                    file.truncate(size)
                if volume.format:
                    run_blocking([*MAKERS[volume.format], str(new)])
                new.replace(path)
            if path.stat().st_size < size:
                os.truncate(path, size)
        number = self.number(volume.id)
        if number is not None:
            run_blocking(["losetup", "--set-capacity", f"/dev/loop{number}"])

    def delete(self, volume_id: int) -> None:
        """Remove a volume with its data; a missing one is fine. VolumeBusy if a machine still has it open."""
        self.release(volume_id)
        self._file(volume_id).unlink(missing_ok=True)

    def number(self, volume_id: int) -> int | None:
        """The number of a volume's loop device, if it has one."""
        return next((n for n, path in loops(self._folder) if path == self._file(volume_id)), None)

    def device(self, volume_id: int) -> int:
        """The number of a volume's loop device, which is made if it is missing."""
        number = self.number(volume_id)
        if number is None:
            run_blocking(["losetup", "--find", str(self._file(volume_id))])
            number = self.number(volume_id)
        if number is None:
            raise VolumeBusy(volume_id)
        return number

    def release(self, volume_id: int) -> None:
        """Detach a volume's loop device, so that its file is complete and another machine can use it.

        VolumeBusy if it is mounted or open.
        """
        deadline = time.monotonic() + RELEASE_DEADLINE
        while (number := self.number(volume_id)) is not None:
            if _unused(number):
                run_blocking(["losetup", "--detach", f"/dev/loop{number}"])
            if time.monotonic() > deadline:
                raise VolumeBusy(volume_id)
            if self.number(volume_id) is not None:
                time.sleep(0.02)

    def release_others(self, kept: set[int]) -> None:
        """Detach loop devices that a crash left without a machine."""
        for _, path in list(loops(self._folder)):
            if path.name.isdecimal() and int(path.name) not in kept:
                self.release(int(path.name))

    def _file(self, volume_id: int) -> Path:
        return self._folder / str(volume_id)


def _unused(number: int) -> bool:
    """Whether no file system or program uses a loop device."""
    try:
        os.close(os.open(f"/dev/loop{number}", os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError:
        return False
    return True
