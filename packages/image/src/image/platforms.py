"""Kinds of servers that the image is built for, and what each is called by whom."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Platform:
    """A kind of processor."""

    name: str  # as OCI and Debian name it, such as ``amd64``
    machine: str  # as the kernel names it (``uname -m``)
    triplet: str  # of Debian's folders of libraries
    wheels: str  # value of uv's option ``--python-platform``
    loader: str  # path of glibc's dynamic loader in the image


AMD64 = Platform(
    "amd64", "x86_64", "x86_64-linux-gnu", "x86_64-manylinux_2_28", "usr/lib64/ld-linux-x86-64.so.2"
)
ARM64 = Platform(
    "arm64", "aarch64", "aarch64-linux-gnu", "aarch64-manylinux_2_28", "usr/lib/ld-linux-aarch64.so.1"
)
PLATFORMS = (AMD64, ARM64)


def of_machine(machine: str) -> Platform | None:
    """The platform of a kernel's name for its processor, or None for one that no image is built for."""
    return next((platform for platform in PLATFORMS if platform.machine == machine), None)
