"""The volumes of a machine: device nodes, links to them, mounts."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hetzner_machines import libc
from hetzner_machines.records import Disk

FORMATS = ("ext4", "xfs")
MAJOR = 7  # of loop devices


def link(volume: int) -> Path:
    """The link to a volume, as at Hetzner, relative to the machine's root."""
    return Path(f"dev/disk/by-id/scsi-0HC_Volume_{volume}")


def place(volume: int) -> Path:
    """The mount point of a volume with automount, as at Hetzner, relative to the machine's root."""
    return Path(f"mnt/HC_Volume_{volume}")


def show(disk: Disk) -> str:
    """Make the nodes of a volume, and mount it with automount; the working directory is the machine's root.

    Returns why it was not mounted, or nothing. A machine starts even without the mount.
    """
    node = Path(f"dev/loop{disk.number}")
    node.unlink(missing_ok=True)
    os.mknod(node, stat.S_IFBLK | 0o660, os.makedev(MAJOR, disk.number))
    link(disk.volume).parent.mkdir(parents=True, exist_ok=True)
    link(disk.volume).unlink(missing_ok=True)
    link(disk.volume).symlink_to(f"../../loop{disk.number}")
    if not disk.automount or os.path.ismount(place(disk.volume)):
        return ""
    return _mount(node, place(disk.volume))


def _mount(node: Path, target: Path) -> str:
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:  # the guest has something else there
        return f"{target} is not mounted: {error.strerror}"
    reason = ""
    for kind in FORMATS:
        try:
            libc.mount(str(node), target, kind)
        except OSError as error:
            reason = f"{target} is not mounted: {error.strerror}. Check whether the volume has a file system"
        else:
            return ""
    return reason


def hide(volume: int, number: int) -> None:
    """Undo :func:`show`; OSError if the volume is mounted and in use."""
    if os.path.ismount(place(volume)):
        libc.unmount(place(volume))
    for path in (link(volume), Path(f"dev/loop{number}")):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # it has files
        place(volume).rmdir()


def inside(init: int, work: Callable[[], str]) -> str:
    """Run a function in the root of a running machine, as its working directory; call it in a new thread.

    Symbolic links of the guest can't leave its root. OSError if the machine has ended.
    """
    with Path(f"/proc/{init}/ns/mnt").open() as namespace:
        libc.unshare(libc.CLONE_FS)
        libc.setns(namespace.fileno(), libc.CLONE_NEWNS)
    os.chdir("/")
    return work()
