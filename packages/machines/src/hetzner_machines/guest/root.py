"""The root of a machine: mounts, devices and files before its init starts, as a list of steps."""

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hetzner_machines import libc, mounts
from hetzner_machines.guest import disks
from hetzner_machines.names import LONGEST_HOST_NAME
from hetzner_machines.records import Boot

# Settings that the kubelet requires; the guest sees these files, the host's values stay.
PRIVATE_SETTINGS = {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}
# Machine-wide settings and triggers that guests must not change.
PROTECTED = ("proc/sys/kernel", "proc/sys/vm", "proc/sys/fs", "proc/sysrq-trigger", "proc/kcore")
DEVICES = {
    "null": (0o666, 1, 3),
    "zero": (0o666, 1, 5),
    "full": (0o666, 1, 7),
    "random": (0o666, 1, 8),
    "urandom": (0o666, 1, 9),
    "tty": (0o666, 5, 0),
    "kmsg": (0o600, 1, 11),
    "net/tun": (0o666, 10, 200),
}
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}


@dataclass(frozen=True)
class Mount:
    """One mount; ``target`` is relative to the machine's root, and an optional one may lack its target."""

    source: str
    target: str
    kind: str = ""
    flags: int = 0
    options: str = ""
    optional: bool = False


@dataclass(frozen=True)
class Device:
    """One character device."""

    path: str
    mode: int
    major: int
    minor: int


@dataclass(frozen=True)
class Link:
    """One symbolic link."""

    path: str
    to: str


@dataclass(frozen=True)
class File:
    """One file with its text; makes its folder if it is missing."""

    path: str
    text: str


Step = Mount | Device | Link | File


def overlay_options(lower: str) -> str:
    """Options of the root's overlay, relative to the machine's disk; separators in paths are escaped."""
    escaped = lower.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
    return f"lowerdir={escaped},upperdir=upper,workdir=work"


def plan(boot: Boot) -> Iterator[Step]:
    """Steps below the root, in this order, after the overlay is mounted."""
    yield Mount("proc", "proc", "proc", libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC)
    # Read-only, as guests must not change the host's devices; it also keeps udev from starting.
    yield Mount("sysfs", "sys", "sysfs", libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC)
    yield from _devices()
    yield Mount("run", "run", "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, "mode=755")
    yield Mount("tmp", "tmp", "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, "mode=1777")
    yield from _cgroups(boot)
    for volume in boot.volumes:
        yield Mount(f"{boot.directory}/disk/data/{volume}", volume, flags=libc.MS_BIND)
    for path in PROTECTED:
        yield Mount(path, path, flags=libc.MS_BIND, optional=True)
        yield Mount("", path, flags=libc.MS_REMOUNT | libc.MS_BIND | libc.MS_RDONLY, optional=True)
    for setting, value in PRIVATE_SETTINGS.items():
        file = "run/ccmfs/sysctl/" + setting.replace("/", ".")
        yield File(file, value + "\n")
        yield Mount(file, f"proc/sys/{setting}", flags=libc.MS_BIND)
    yield File("run/ccmfs/sys_vendor", "Hetzner\n")
    yield File("run/ccmfs/product_serial", boot.serial + "\n")


def _devices() -> Iterator[Step]:
    yield Mount("dev", "dev", "tmpfs", libc.MS_NOSUID, "mode=755,size=4m")
    for name, (mode, major, minor) in DEVICES.items():
        yield Device(f"dev/{name}", mode, major, minor)
    for name, to in DEVICE_LINKS.items():
        yield Link(f"dev/{name}", to)
    quiet = libc.MS_NOSUID | libc.MS_NOEXEC
    yield Mount("devpts", "dev/pts", "devpts", quiet, "newinstance,ptmxmode=0666,mode=620,gid=5")
    yield Mount("shm", "dev/shm", "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, "mode=1777")
    yield Mount("mqueue", "dev/mqueue", "mqueue", quiet | libc.MS_NODEV)


def _cgroups(boot: Boot) -> Iterator[Step]:
    flags = libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC
    if any(hierarchy.name for hierarchy in boot.hierarchies):
        yield Mount("cgroup", "sys/fs/cgroup", "tmpfs", flags, "mode=755")
    for hierarchy in boot.hierarchies:
        target = f"sys/fs/cgroup/{hierarchy.name}".rstrip("/")
        yield Mount(hierarchy.kind, target, hierarchy.kind, flags, hierarchy.options)
        if "," in hierarchy.name:  # programs look for each controller of a shared hierarchy by its name
            for controller in hierarchy.name.split(","):
                yield Link(f"sys/fs/cgroup/{controller}", hierarchy.name)


def build(boot: Boot) -> None:
    """Build the root and pivot into it; needs new mount and UTS namespaces. OSErrors name the step."""
    os.umask(0o022)
    lower = str(Path(boot.lower).resolve())
    prefix = mounts.leave_the_hosts()
    boot = replace(boot, directory=prefix + boot.directory, lower=prefix + lower)
    os.chdir(Path(boot.directory, "disk"))
    libc.mount("overlay", Path("root"), "overlay", options=overlay_options(boot.lower))
    os.chdir("root")
    for step in plan(boot):
        _do(step)
    # The host's root is stacked on the machine's and unmounted: the guest needs no folder for it.
    libc.pivot_root(".", ".")
    libc.unmount(Path(), libc.MNT_DETACH)
    os.chdir("/")
    # From here on the guest's symbolic links can't leave its root.
    for reason in filter(None, map(disks.show, boot.disks)):
        print(reason)
    libc.set_hostname(own_name(Path("etc/hostname")) or boot.name)
    libc.mount("none", Path("/"), flags=libc.MS_REC | libc.MS_SHARED)


def _do(step: Step) -> None:
    refuse_links(Path(step.target if isinstance(step, Mount) else step.path))
    match step:
        case Mount(source, target, kind, flags, options, optional):
            if not Path(target).exists():
                if optional:
                    return
                Path(target).mkdir(parents=True)
            libc.mount(source, Path(target), kind, flags, options)
        case Device(path, mode, major, minor):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            os.mknod(path, stat.S_IFCHR | mode, os.makedev(major, minor))
            os.chmod(path, mode)  # noqa: PTH101  mknod obeys the umask
        case Link(path, to):
            Path(path).symlink_to(to)
        case File(path, text):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text)


def refuse_links(path: Path) -> None:
    """Raise OSError for a path with symbolic links of an earlier run: they would lead into the host.

    The guest doesn't run yet, so the result stays true.
    """
    for part in (*reversed(path.parents), path):
        if part.is_symlink():
            raise OSError(errno.ELOOP, "a machine can't start if this path is a symbolic link", f"/{part}")


def own_name(path: Path) -> str:
    """The host name in the first line of a file; empty if the guest has written an invalid one."""
    if not path.is_file():
        return ""
    with path.open(errors="replace") as file:
        line = file.readline(4 * LONGEST_HOST_NAME).strip()
    return line if len(line.encode()) <= LONGEST_HOST_NAME else ""
