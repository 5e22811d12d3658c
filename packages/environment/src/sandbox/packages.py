"""Debian packages that the sandbox needs of its host, what for, and how they get there."""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.environment import HOLLOW, MACHINES
from sandbox.errors import MissingRequirement, SandboxError

BUILD = "build"
"""For compiling C."""

EMULATION = "emulation"
"""Marks the packages with which tests run the CCM's ARM image on another processor architecture."""

BROWSER = "browser"
"""Marks packages that tests of the sandbox's console need."""

BROWSERS = ("chromium", "google-chrome", "chromium-browser")
"""Commands of supported browsers. Tests use the first browser that is installed."""

_APT_SECONDS = 900
_TAIL = 600


@dataclass(frozen=True)
class Package:
    """One Debian package."""

    name: str  # in Debian and Ubuntu
    proof: str  # the command, or the file (beginning with ``/``), that shows that nothing is missing
    why: str  # what needs it
    # What it is for: a kind of servers, ``BUILD``, ``EMULATION`` or ``BROWSER``.
    needs: tuple[str, ...] = (MACHINES,)
    instead: tuple[str, ...] = ()  # other commands or files of which one does as well


PACKAGES: tuple[Package, ...] = (
    Package("gcc", "gcc", "builds runc and the pause program", (BUILD,)),
    Package("libc6-dev", "/usr/include/stdlib.h", "builds runc and the pause program", (BUILD,)),
    Package("libseccomp-dev", "/usr/include/seccomp.h", "builds runc", (BUILD,)),
    Package("pkg-config", "pkg-config", "builds runc", (BUILD,)),
    Package("mmdebstrap", "mmdebstrap", "builds the machine image"),
    Package("iproute2", "ip", "makes networks"),
    Package("util-linux", "nsenter", "runs programs in the network namespaces of machines"),
    Package("nftables", "nft", "firewalls"),
    Package("haproxy", "haproxy", "load balancers"),
    Package("openssh-client", "ssh", "./dev ssh"),
    Package("openssl", "openssl", "creates certificates for a control plane on loopback", (MACHINES, HOLLOW)),
    Package("qemu-user-static", "qemu-aarch64-static", "runs the CCM's image for ARM in tests", (EMULATION,)),
    Package("chromium", BROWSERS[0], "opens the sandbox's console in tests", (BROWSER,), BROWSERS[1:]),
    Package("curl", "curl", "runs the curl commands that the console shows", (BROWSER,)),
    Package(
        "libatomic1",
        f"/usr/lib/{platform.machine()}-linux-gnu/libatomic.so.1",
        "required by Node.js, which tests use to control the browser",
        (BROWSER,),
        ("/usr/lib64/libatomic.so.1", "/usr/lib/libatomic.so.1"),
    ),
)


def missing(needs: Collection[str], found: Callable[[str], bool]) -> tuple[Package, ...]:
    """The packages whose command or file is missing."""
    wanted = (package for package in PACKAGES if not set(needs).isdisjoint(package.needs))
    return tuple(p for p in wanted if not any(map(found, (p.proof, *p.instead))))


def on_this_host(proof: str) -> bool:
    """Whether a command or a file is there."""
    if proof.startswith("/"):
        return Path(proof).exists()
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
    return shutil.which(proof, path=path) is not None


def installable() -> bool:
    """Whether we may install packages here: as root on Debian or Ubuntu."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def distribution() -> str:
    """What this host's ``/etc/os-release`` calls it, such as ``debian``; empty where it has none."""
    try:
        return platform.freedesktop_os_release()["ID"]
    except OSError:
        return ""


def install_command(packages: Iterable[Package]) -> str:
    """What a person types to install packages."""
    names = " ".join(package.name for package in packages)
    return f"sudo apt-get update && sudo apt-get install --no-install-recommends {names}"


def ensure(
    packages: Sequence[Package], progress: Callable[[str], None], permitted: Callable[[], bool] = installable
) -> None:
    """Install packages, as root on Debian or Ubuntu."""
    if not packages:
        return
    if not permitted():
        names = ", ".join(f"{package.name} ({package.why})" for package in packages)
        raise MissingRequirement(f"these packages are missing: {names}. Run: {install_command(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["install", "-qq", "--yes", "--no-install-recommends", *(package.name for package in packages)]
    for arguments in (["update", "-qq"], install):
        progress(f"apt-get {arguments[0]}")
        done = subprocess.run(
            ["apt-get", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_APT_SECONDS,
        )
        if done.returncode:
            raise SandboxError(f"apt-get {arguments[0]} failed: {done.stderr.strip()[-_TAIL:]}")
