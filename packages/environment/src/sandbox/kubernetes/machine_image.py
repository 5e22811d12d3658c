"""The machine image: a Debian root file system and a containerd store, built once and shared read-only.

Three folders below ``image`` in the cache, each named by the hash of what goes into it and put there by a
rename: plain Debian (mmdebstrap, minutes), the root file system (Debian's files by hard link plus ours, a
second), and the container store.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from hetzner_machines.disk import Image
from image import toolbox
from sandbox.errors import MissingRequirement
from sandbox.kubernetes import container_store, toolchain
from sandbox.kubernetes.debian import PACKAGES, SUITE, build_debian
from sandbox.kubernetes.processes import Progress, run
from sandbox.kubernetes.toolchain import Toolchain, complete, explained, locked

MACHINE_FILES = Path(__file__).parent / "machine"
PROGRAMS = Path("usr/local/lib/kubernetes/bin")
"""The toolchain's folder in the image. The folder isn't in PATH, so that a real k3s doesn't use it."""

PLUGINS = Path("opt/cni/bin")

_MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dev-hugepages.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "nftables.service",
    "proc-sys-fs-binfmt_misc.automount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-binfmt.service",
    "systemd-logind.service",
    "systemd-modules-load.service",
    "systemd-networkd.service",
    "systemd-pstore.service",
    "systemd-remount-fs.service",
    "systemd-resolved.service",
    "systemd-sysctl.service",
    "systemd-timesyncd.service",
    "systemd-udev-trigger.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udevd.service",
)
"""systemd units for hardware, consoles and maintenance. Machines don't need these units, so the image masks
them. Otherwise, each path unit would use an inotify instance of the host."""


@dataclass(frozen=True)
class _Folders:
    debian: Path
    rootfs: Path
    store: Path
    store_without_tools: Path


def find(cache: Path) -> Image | None:
    """The image for the current toolchain and files, or None where it has not been built."""
    built = toolchain.find(cache)
    if built is None:
        return None
    folders = _folders(cache, built)
    there = folders.store if folders.store.is_dir() else folders.store_without_tools
    return Image(folders.rootfs, there) if folders.rootfs.is_dir() and there.is_dir() else None


def ensure(cache: Path, programs: Toolchain, progress: Progress) -> Image:
    """The machine image, built where it is missing."""
    folders = _folders(cache, programs)
    if not (folders.rootfs.is_dir() and folders.store.is_dir()):
        if os.geteuid() != 0:
            raise MissingRequirement(
                "building the machine image requires root. Run the command once as root, or use "
                "a backend other than 'machines'"
            )
        home = folders.rootfs.parent
        with explained(home), locked(home / "lock", "the machine image", progress):
            if not folders.debian.is_dir():
                with complete(folders.debian) as target:
                    build_debian(target, progress)
            if not folders.rootfs.is_dir():
                with complete(folders.rootfs) as target:
                    _build_rootfs(target, folders.debian, programs, progress)
            if not folders.store.is_dir():
                _build_store(folders, programs, progress)
    found = find(cache)
    assert found is not None, "the image exists, because it was just built"
    return found


def _build_store(folders: _Folders, programs: Toolchain, progress: Progress) -> None:
    """Make the container store; without the tools image if that isn't available, until a later run has it."""
    with tempfile.TemporaryDirectory() as work:
        tools = Path(work, "tools.tar")
        wanted = (
            folders.store if container_store.fetch_tools(tools, progress) else folders.store_without_tools
        )
        if not wanted.is_dir():
            images = container_store.images(programs, folders.debian)
            with complete(wanted) as target:
                container_store.build_store(
                    target, programs, images, progress, tools if wanted == folders.store else None
                )


def _folders(cache: Path, programs: Toolchain) -> _Folders:
    home = cache / "image"
    debian = home / f"debian-{SUITE}-{_digest(*PACKAGES)}"
    content = _digest(debian.name, programs.key, *_MASKED, _tree_digest(MACHINE_FILES))
    with_tools, without = (
        home / f"store-{_digest(debian.name, programs.key, container_store.FORMAT, *tools)}"
        for tools in ([toolbox.key()], [])
    )
    return _Folders(debian, home / f"rootfs-{content}", with_tools, without)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _tree_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _build_rootfs(target: Path, debian: Path, programs: Toolchain, progress: Progress) -> None:
    progress("machine image: root file system")
    run("copying Debian", ("cp", "-a", "--link", str(debian), str(target)), progress=progress)
    for source in sorted(MACHINE_FILES.rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            install(source, target / source.relative_to(MACHINE_FILES), 0o644)
    in_images = {path.name for one in container_store.images(programs, debian) for path in one.files.values()}
    _install_folder(programs.bin, target / PROGRAMS, but=in_images)
    _install_folder(programs.cni, target / PLUGINS)
    for unit in _MASKED:
        link = target / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    # A dangling link as it is after an installation would hide what the machine's owner writes.
    for name, text in (("etc/machine-id", ""), ("etc/hostname", "machine\n"), ("etc/resolv.conf", "")):
        (target / name).unlink(missing_ok=True)
        (target / name).write_text(text)


def install(source: Path, target: Path, mode: int) -> None:
    """Copy a file into a tree whose files may be hard links: replaces the target."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def _install_folder(source: Path, target: Path, but: Collection[str] = ()) -> None:
    """Copy programs but some; a link to a program beside it stays a link."""
    target.mkdir(parents=True, exist_ok=True)
    for program in sorted(path for path in source.iterdir() if path.name not in but):
        real = program.resolve()
        if real.name == program.name:
            install(real, target / program.name, 0o755)
        else:
            (target / program.name).symlink_to(real.name)
