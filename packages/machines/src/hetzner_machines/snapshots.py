"""Images of machines' disks: copies from which other machines start."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from hetzner_machines import cgroups, disk, records
from hetzner_machines.errors import CommandFailed, DiskFull, NotPermitted
from hetzner_machines.runner import run_blocking

FOLDER = "snapshots"
"""The name of a folder in the sandbox's state folder. The folder contains one subfolder for each image. The
name of the subfolder is the image's ID."""

KEPT = ("upper", "data")
RESERVE = 2**30  # free bytes that must remain on the disk
COPY_SECONDS = 900.0
GB = 10**9


def keep(directory: Path, target: Path, *, running: bool) -> float:
    """Copy a machine's disk; keeps a complete copy, replaces an incomplete one. Returns GB. Blocks.

    A running machine is frozen meanwhile, so the copy is consistent, and no process can mislead the copying.
    DiskFull, or NotPermitted if it can't be frozen.
    """
    with disk.explained(target):
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not target.exists():
            new = target.with_name(f"{target.name}.new")
            disk.remove(new)
            new.mkdir(mode=0o700)
            with _still(directory) if running else nullcontext():
                copy(directory / "disk", new)
            new.rename(target)
    return round(_size(target) / GB, 3)


def copy(source: Path, target: Path) -> None:
    """Copy a machine's disk into an image, or an image into the disk of a new machine. Blocks."""
    if _size(source) + RESERVE > shutil.disk_usage(target).free:
        raise DiskFull(target.parent)
    command = ["cp", "--archive", "--reflink=auto", "--", *(str(source / part) for part in KEPT), str(target)]
    try:
        run_blocking(command, seconds=COPY_SECONDS)
    except CommandFailed as error:
        if "No space left" in error.output:
            raise DiskFull(target.parent) from error
        raise


def _size(folder: Path) -> int:
    """Bytes that the files of a disk use."""
    return sum(
        os.lstat(os.path.join(path, name)).st_blocks * 512  # noqa: PTH118  many of them
        for part in KEPT
        for path, _, files in os.walk(folder / part)
        for name in files
    )


@contextmanager
def _still(directory: Path) -> Iterator[None]:
    hierarchies = records.read_boot(directory / "boot.json").hierarchies
    try:
        cgroups.freeze(hierarchies, still=True)
    except OSError as error:
        cgroups.freeze(hierarchies, still=False)
        what = "pause the server before copying its disk (if you switch off the server, no pause is needed)"
        raise NotPermitted(what, error) from error
    try:
        yield
    finally:
        cgroups.freeze(hierarchies, still=False)
