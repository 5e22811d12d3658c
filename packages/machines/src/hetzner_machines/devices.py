"""Denies machines the host's disks, whatever device nodes their root makes or mounts.

A guest's root has the host's powers over devices: it can make a node of any device, or mount a file system
full of them. So the kernel must refuse to open disks. The rule is on a cgroup above the guest's root, where
no guest can remove it. Cgroups of version 1 have a controller for such rules, version 2 a BPF program. Making
nodes stays allowed, as container runtimes do it.

Only access to disks is refused: all block devices except a machine's volumes, and drivers of character
devices that machines don't use, since some of them (bsg, nvme, sg) accept commands for disks.

In version 2, each machine's cgroup has its own program, which allows the volumes of this machine. In version
1, the rule is on the site's cgroup, and can't make such exceptions.
"""

import os
import re
import struct
from collections.abc import Collection
from pathlib import Path

from hetzner_machines import libc

# Majors of memory (null, zero, random, kmsg), terminals, miscellaneous (tun, fuse), and of pseudo terminals.
USED = (1, 5, 10, *range(128, 144))
DRIVERS = Path("/proc/devices")

_BLOCK, _READ_OR_WRITE = 1, 2 | 4  # BPF_DEVCG_DEV_BLOCK, BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE
_LOAD, _COPY, _SHIFT_LEFT, _SHIFT_RIGHT, _AND, _OR, _SET = 0x61, 0xBF, 0x67, 0x77, 0x57, 0x4F, 0xB7
_IF_EQUAL, _RETURN = 0x15, 0x95
_LOOP, _MINOR_BITS = 7, 20


def denied(drivers: str) -> list[str]:
    """Lines for ``devices.deny`` of a cgroup of version 1, from the text of /proc/devices.

    Other devices stay allowed. Otherwise, no cgroup below could allow all devices, as those of privileged
    Pods do. Drivers that are loaded later are denied at the next start of a machine.
    """
    characters = drivers.partition("Block devices:")[0]
    majors = sorted(
        {int(number) for number in re.findall(r"^ *(\d+) ", characters, re.MULTILINE)} - set(USED)
    )
    return ["b *:* rw", *(f"c {major}:* rw" for major in majors)]


def program(volumes: Collection[int] = ()) -> bytes:
    """The BPF program for a cgroup of version 2; its input is kind, access and numbers of a device."""
    kind, access, major, minor = 2, 3, 4, 5  # registers; 1 points to what is asked, 0 is the answer
    refuse = [(_SET, 0, 0, 0, 0), (_RETURN, 0, 0, 0, 0)]
    checks = [
        (_LOAD, kind, 1, 0, 0),  # both of them in one number, the access in its upper half
        (_COPY, access, kind, 0, 0),
        (_SHIFT_RIGHT, access, 0, 0, 16),
        (_AND, access, 0, 0, _READ_OR_WRITE),
        (_IF_EQUAL, access, 0, "allow", 0),
        (_AND, kind, 0, 0, 0xFFFF),
        (_LOAD, major, 1, 4, 0),
        (_IF_EQUAL, kind, 0, "block", _BLOCK),
        *((_IF_EQUAL, major, 0, "allow", number) for number in USED),
        *refuse,
        (_LOAD, minor, 1, 8, 0),
        (_SHIFT_LEFT, major, 0, 0, _MINOR_BITS),
        (_OR, major, minor, 0, 0),
        *((_IF_EQUAL, major, 0, "allow", _LOOP << _MINOR_BITS | number) for number in sorted(volumes)),
    ]
    answers = [*refuse, (_SET, 0, 0, 0, 1), (_RETURN, 0, 0, 0, 0)]
    block = next(i for i, check in enumerate(checks) if check[:3] == (_LOAD, minor, 1))
    places = {"block": block, "allow": len(checks) + 2}
    code = b""
    for place, (operation, target, source, offset, number) in enumerate([*checks, *answers]):
        jump = places[offset] - place - 1 if isinstance(offset, str) else offset
        code += struct.pack("<BBhi", operation, target | source << 4, jump, number)
    return code


def fence(cgroup: Path, kind: str, volumes: Collection[int] = ()) -> None:
    """Deny processes below a cgroup the host's disks; replaces earlier permissions.

    In version 1, pass the site's cgroup. ``volumes`` are loop devices to allow, only possible in version 2.
    """
    if kind == "cgroup":
        for line in denied(DRIVERS.read_text()):
            (cgroup / "devices.deny").write_text(line)
        return
    descriptor = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        before = libc.device_programs(descriptor)
        libc.attach_device_program(descriptor, program(volumes))
        for identity in before:  # all programs must allow, so access is never wider in between
            libc.detach_device_program(descriptor, identity)
    finally:
        os.close(descriptor)
