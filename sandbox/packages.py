"""Debian packages that the sandbox needs of its host, and how they get there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sandbox.errors import MissingRequirement, StepFailed

# package → the command or file that only it brings, and why it is needed
PACKAGES: Mapping[str, tuple[str, str]] = {
    "gcc": ("gcc", "builds runc"),
    "libc6-dev": ("/usr/include/stdlib.h", "builds runc"),
    "libseccomp-dev": ("/usr/include/seccomp.h", "builds runc"),
    "pkg-config": ("pkg-config", "builds runc"),
    "mmdebstrap": ("mmdebstrap", "builds the machine image and the CCM's image"),
    "umoci": ("umoci", "builds the CCM's image"),
    "iproute2": ("ip", "makes networks"),
    "nftables": ("nft", "makes networks"),
    "util-linux": ("unshare", "makes machines"),
    "haproxy": ("haproxy", "load balancers"),
    "openssh-client": ("ssh", "./dev ssh"),
}


def missing(found: Callable[[str], bool]) -> list[str]:
    """The packages whose command or file is not there.

    Args:
        found: whether a command (on PATH, or in an sbin folder) or a file is there.
    """
    return [name for name, (proof, _) in PACKAGES.items() if not found(proof)]


def on_this_host(proof: str) -> bool:
    """Whether a command or a file is there."""
    if proof.startswith("/"):
        return Path(proof).exists()
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
    return shutil.which(proof, path=path) is not None


def install_command(names: Iterable[str]) -> str:
    """What a person types to install packages."""
    return f"sudo apt-get install --no-install-recommends {' '.join(names)}"


def ensure(progress: Callable[[str], None]) -> list[str]:
    """Install what is missing, as root on Debian or Ubuntu.

    Returns:
        The names of what was installed.

    Raises:
        MissingRequirement: something is missing and we may not install it; says what to type.
        StepFailed: apt-get failed.
    """
    names = missing(on_this_host)
    if not names:
        return []
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise MissingRequirement(
            f"these packages are missing: {', '.join(names)}. Type: {install_command(names)}"
        )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-qq"], ["install", "-qq", "--yes", "--no-install-recommends", *names]):
        progress(f"apt-get {arguments[0]}")
        done = subprocess.run(
            ["apt-get", *arguments], env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        if done.returncode:
            raise StepFailed(f"apt-get {arguments[0]}", done.returncode, done.stderr.strip()[-600:])
    return names
