"""The system calls that Python 3.11 lacks, with errors as OSError."""

import ctypes
import os
import struct
from pathlib import Path

CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SHARED = 0x100000

MNT_DETACH = 2

CAP_SYS_MODULE = 16
CAP_SYS_RAWIO = 17
CAP_SYS_TIME = 25

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_BPF = {"x86_64": 321, "aarch64": 280}
_BPF_PROG_LOAD, _BPF_PROG_ATTACH, _BPF_PROG_DETACH, _BPF_PROG_GET_FD_BY_ID, _BPF_PROG_QUERY = 5, 8, 9, 13, 16
_BPF_MOST_PROGRAMS = 64  # of one cgroup
_BPF_PROG_TYPE_CGROUP_DEVICE, _BPF_CGROUP_DEVICE = 15, 6
_BPF_F_ALLOW_MULTI = 2  # cgroups below may have further programs; all of them must allow

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, call: str, subject: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}", subject)


def setns(descriptor: int, kind: int) -> None:
    """Move the calling thread into the namespace behind a file descriptor."""
    _check(_libc.setns(descriptor, kind), "setns", str(descriptor))


def unshare(flags: int) -> None:
    """Move the calling thread (for some flags: process) to new namespaces."""
    _check(_libc.unshare(flags), "unshare", hex(flags))


def mount(source: str, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Attach a file system. An empty ``kind`` or ``options`` is passed to the kernel as NULL."""
    result = _libc.mount(
        source.encode(),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(result, "mount", str(target))


def unmount(target: Path, flags: int = 0) -> None:
    """Unmount a file system, as umount2(2) does."""
    _check(_libc.umount2(os.fsencode(target), flags), "umount2", str(target))


def pivot_root(new_root: str, put_old: str) -> None:
    """Make ``new_root`` the root of the mount namespace; glibc has no wrapper for this call."""
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    _check(_libc.syscall(number, new_root.encode(), put_old.encode()), "pivot_root", new_root)


def set_hostname(name: str) -> None:
    """Set the host name of the calling process's UTS namespace."""
    raw = name.encode()
    _check(_libc.sethostname(raw, len(raw)), "sethostname", name)


def inotify() -> int:
    """A new inotify instance as a file descriptor, for the caller to close."""
    descriptor = _libc.inotify_init1(os.O_CLOEXEC)
    _check(min(descriptor, 0), "inotify_init1", "")
    return descriptor


def device_programs(cgroup: int) -> list[int]:
    """IDs of the device programs of a cgroup of version 2, given as file descriptor."""
    found = ctypes.create_string_buffer(4 * _BPF_MOST_PROGRAMS)
    place = ctypes.addressof(found)
    asked = bytearray(struct.pack("<IIIIQII", cgroup, _BPF_CGROUP_DEVICE, 0, 0, place, _BPF_MOST_PROGRAMS, 0))
    _bpf(_BPF_PROG_QUERY, asked, "BPF_PROG_QUERY")
    count = struct.unpack_from("<I", asked, 24)[0]
    return list(struct.unpack_from(f"<{count}I", found))


def detach_device_program(cgroup: int, identity: int) -> None:
    """Detach a device program from a cgroup of version 2 (a file descriptor)."""
    asked = bytearray(struct.pack("<III", identity, 0, 0))
    program = _bpf(_BPF_PROG_GET_FD_BY_ID, asked, "BPF_PROG_GET_FD_BY_ID")
    try:
        detaching = struct.pack("<IIII", cgroup, program, _BPF_CGROUP_DEVICE, 0)
        _bpf(_BPF_PROG_DETACH, bytearray(detaching), "BPF_PROG_DETACH")
    finally:
        os.close(program)


def attach_device_program(cgroup: int, code: bytes) -> None:
    """Attach a device program to a cgroup of version 2 (a file descriptor), for it and all below."""
    text, module_license = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"MIT")
    places = (ctypes.addressof(text), ctypes.addressof(module_license))
    loading = struct.pack("<IIQQIIQII", _BPF_PROG_TYPE_CGROUP_DEVICE, len(code) // 8, *places, 0, 0, 0, 0, 0)
    loaded = _bpf(_BPF_PROG_LOAD, bytearray(loading), "BPF_PROG_LOAD")
    try:
        attaching = struct.pack("<IIII", cgroup, loaded, _BPF_CGROUP_DEVICE, _BPF_F_ALLOW_MULTI)
        _bpf(_BPF_PROG_ATTACH, bytearray(attaching), "BPF_PROG_ATTACH")
    finally:
        os.close(loaded)


def _bpf(command: int, attributes: bytearray, name: str) -> int:
    """bpf(2); the kernel may write into the attributes."""
    buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    result: int = _libc.syscall(_SYS_BPF[os.uname().machine], command, buffer, len(attributes))
    _check(min(result, 0), "bpf", name)
    return result


def die_with_parent(signal: int) -> None:
    """Let the kernel send ``signal`` to this process when the thread that forked it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl", "PR_SET_PDEATHSIG")


def drop_bounding_capability(capability: int) -> None:
    """Drop a capability from this process's future programs."""
    _check(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), "prctl", f"PR_CAPBSET_DROP {capability}")
