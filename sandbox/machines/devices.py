"""Fences machines off from the host's disks, whatever nodes their root makes or mounts.

A guest's root has the host's root's powers over devices: it can make a node of any device, or mount a file
system full of them. So the kernel must refuse to open them. What asks it to is put on the site's own cgroup,
above those of the machines, where no guest can take it off: cgroups of version 1 have a controller for it,
version 2 a BPF program. Making nodes stays allowed, as container runtimes do it.

Only what reaches disks is refused: all block devices, and drivers of character devices other than those that
a machine uses, as some of them (bsg, nvme, sg) take commands for disks.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

from sandbox.machines import libc

# Majors of memory (null, zero, random, kmsg), terminals, miscellaneous (tun, fuse), and of pseudo terminals.
USED = (1, 5, 10, *range(128, 144))
DRIVERS = Path("/proc/devices")

_BLOCK, _READ_OR_WRITE = 1, 2 | 4  # BPF_DEVCG_DEV_BLOCK, BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE
_LOAD, _COPY, _SHIFT_RIGHT, _AND, _SET = 0x61, 0xBF, 0x77, 0x57, 0xB7
_IF_EQUAL, _RETURN = 0x15, 0x95


def denied(drivers: str) -> list[str]:
    """What to write into ``devices.deny`` of a cgroup of version 1.

    What is not denied stays allowed: else no container below could be given all, as privileged Pods are.

    Args:
        drivers: Text of /proc/devices; what is loaded later is denied at the next start of a machine.
    """
    characters = drivers.partition("Block devices:")[0]
    majors = sorted(
        {int(number) for number in re.findall(r"^ *(\d+) ", characters, re.MULTILINE)} - set(USED)
    )
    return ["b *:* rw", *(f"c {major}:* rw" for major in majors)]


def program() -> bytes:
    """The BPF program for a cgroup of version 2: is asked with kind, access and numbers of a device."""
    kind, access, major = 2, 3, 4  # registers; 1 points to what is asked, 0 is the answer
    checks = [
        (_LOAD, kind, 1, 0, 0),  # both of them in one number, the access in its upper half
        (_COPY, access, kind, 0, 0),
        (_SHIFT_RIGHT, access, 0, 0, 16),
        (_AND, access, 0, 0, _READ_OR_WRITE),
        (_IF_EQUAL, access, 0, "allow", 0),
        (_AND, kind, 0, 0, 0xFFFF),
        (_IF_EQUAL, kind, 0, "deny", _BLOCK),
        (_LOAD, major, 1, 4, 0),
        *((_IF_EQUAL, major, 0, "allow", number) for number in USED),
    ]
    answers = [(_SET, 0, 0, 0, 0), (_RETURN, 0, 0, 0, 0), (_SET, 0, 0, 0, 1), (_RETURN, 0, 0, 0, 0)]
    places = {"deny": len(checks), "allow": len(checks) + 2}
    code = b""
    for place, (operation, target, source, offset, number) in enumerate([*checks, *answers]):
        jump = places[offset] - place - 1 if isinstance(offset, str) else offset
        code += struct.pack("<BBhi", operation, target | source << 4, jump, number)
    return code


def fence(site: Path, kind: str) -> None:
    """Let no process below a cgroup open the host's disks; one that is fenced stays so.

    Args:
        site: The site's cgroup.
        kind: ``cgroup`` or ``cgroup2``.

    Raises:
        OSError: The kernel refuses it.
    """
    if kind == "cgroup":
        for line in denied(DRIVERS.read_text()):
            (site / "devices.deny").write_text(line)
        return
    descriptor = os.open(site, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not libc.has_device_program(descriptor):
            libc.attach_device_program(descriptor, program())
    finally:
        os.close(descriptor)
