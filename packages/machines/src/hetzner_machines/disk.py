"""The disk of a machine: changes over the shared image, and folders on the plain disk."""

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hetzner_machines import greeting, mounts
from hetzner_machines.airgap import Airgap
from hetzner_machines.errors import BackendError, DiskFull

# Container runtimes can't put an overlay on an overlay; databases need the plain disk, too.
VOLUMES = ("var/lib/containerd", "var/lib/kubelet", "var/lib/etcd", "var/lib/rancher", "var/log")
MACHINES = "machines"
"""The name of a folder in the sandbox's state folder. The folder contains one subfolder for each machine. The
name of the subfolder is the server's ID."""

DATA = Path("disk/data")
"""The folder with the contents of a machine's ``VOLUMES``, relative to the machine's folder."""

STORE = "var/lib/containerd"
RESOLVER = (
    "# This name server works only if the sandbox runs with --internet. Otherwise, it rejects all "
    "queries.\nnameserver 169.254.169.254\n"
)


@dataclass(frozen=True)
class Image:
    """What a new machine starts from; both folders must not be written to."""

    rootfs: Path  # a Debian root with systemd, sshd and cloud-init: the lower layer of an overlay
    # A /var/lib/containerd that holds the images every node needs; copy it by hard links, but its ``*.db``
    # files by content.
    container_store: Path


def create(
    directory: Path,
    image: Image,
    airgap: Airgap,
    hostname: str,
    identity: str,
    *,
    asked: str = "",
    start: Callable[[Path], None] | None = None,
) -> None:
    """Make the disk of a new machine; keeps a complete one, replaces an incomplete one."""
    if (directory / "disk").exists():
        return
    with explained(directory):
        new = directory / "disk.new"
        remove(new)
        new.mkdir()
        if start:
            start(new)
            _write(new / "upper", hostname, identity)
        else:
            _write(new / "upper", hostname, identity)
            _greet(new / "upper", image.rootfs, asked)
            for volume in VOLUMES:
                _fill(new / "data" / volume, volume, image)
        (new / "work").mkdir()
        (new / "root").mkdir()
        with airgap.placed(new / "data"):
            new.rename(directory / "disk")


def _write(upper: Path, hostname: str, identity: str) -> None:
    """Write the machine's own files; doesn't follow symbolic links of a snapshot."""
    (upper / "etc").mkdir(parents=True, exist_ok=True)
    upper.chmod(0o755)
    texts = {
        "hostname": hostname + "\n",
        "resolv.conf": RESOLVER,
        # without an id systemd runs its first boot, which is slower
        "machine-id": hashlib.sha256(identity.encode()).hexdigest()[:32] + "\n",
    }
    folder = os.open(upper / "etc", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name, text in texts.items():
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, 0o644, dir_fd=folder), "w") as file:
                file.write(text)
    finally:
        os.close(folder)


def _greet(upper: Path, rootfs: Path, asked: str) -> None:
    release = rootfs / greeting.RELEASE
    if text := greeting.message(release.read_text() if release.exists() else "", asked):
        (upper / greeting.MESSAGE).write_text(text)


def _fill(target: Path, volume: str, image: Image) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if volume == STORE and image.container_store.is_dir():
        copy(image.container_store, target, share=True)
    elif (image.rootfs / volume).is_dir():
        copy(image.rootfs / volume, target, share=False)
    else:
        target.mkdir()


def copy(source: Path, target: Path, *, share: bool) -> None:
    """Copy a folder with owners, modes and times to a new path.

    With ``share``, files that are never written again become hard links, and databases (``*.db``) are copied.
    If the target is on another file system, everything is copied.
    """
    for path, folders, files in os.walk(source):
        here = target / os.path.relpath(path, source)
        here.mkdir(exist_ok=True)
        _take_over(Path(path), here)
        for name in files + [folder for folder in folders if Path(path, folder).is_symlink()]:
            if share and not name.endswith(".db"):
                share = _linked(Path(path, name), here / name)
                if share:
                    continue
            shutil.copy2(Path(path, name), here / name, follow_symlinks=False)
            _take_over(Path(path, name), here / name)


def _linked(source: Path, target: Path) -> bool:
    """Make a hard link; False if the file systems don't allow it."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.EXDEV:
            return False
        raise
    return True


def _take_over(source: Path, target: Path) -> None:
    facts = source.lstat()
    os.chown(target, facts.st_uid, facts.st_gid, follow_symlinks=False)
    shutil.copystat(source, target, follow_symlinks=False)


def remove(folder: Path) -> None:
    """Remove a folder with its content; a missing one is fine.

    BackendError if a file can't be removed, or a file system is mounted below, which may be the user's.
    """
    if mounted := mounts.below(folder.resolve()):
        raise BackendError(
            f"could not remove the folder {folder}, because a file system is mounted at {mounted[0]}"
        )
    if folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise BackendError(f"could not remove the folder {folder}: {error}") from error


@contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Turn errors of the file system into errors that say what to do."""
    try:
        yield
    except shutil.Error as error:  # errors of many files; the first suffices
        first = error.args[0][0]
        if os.strerror(errno.ENOSPC) in str(first[2]):
            raise DiskFull(directory.parent) from error
        raise BackendError(f"could not copy {first[0]} to {first[1]}: {first[2]}") from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFull(directory.parent) from error
        raise BackendError(f"could not write to the folder {directory}: {error}") from error
