"""Runs programs of the host with a deadline; raises CommandFailed."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Sequence

from hetzner_machines.errors import BackendError, CommandFailed
from hetzner_machines.names import NAMESPACES

DEADLINE = 30.0
PACKAGES = {
    "ip": "iproute2",
    "haproxy": "haproxy",
    "cp": "coreutils",
    "nsenter": "util-linux",
    "nft": "nftables",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
}

Runner = Callable[[Sequence[str], str], Awaitable[str]]
"""Runs a program, passes a string to its standard input, and returns its standard output."""


def run_blocking(command: Sequence[str], text: str = "", seconds: float = DEADLINE) -> str:
    """Run a program and return its standard output."""
    try:
        done = subprocess.run(
            list(command), input=text, capture_output=True, text=True, timeout=seconds, check=False
        )
    except FileNotFoundError:
        raise BackendError(missing(command[0])) from None
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(command, -9, f"no end after {seconds:g} s") from error
    if done.returncode != 0:
        raise CommandFailed(command, done.returncode, done.stderr or done.stdout)
    return done.stdout


async def run(command: Sequence[str], text: str = "") -> str:
    """Like :func:`run_blocking`, without blocking the event loop."""
    return await asyncio.to_thread(run_blocking, command, text)


def inside(namespace: str | None, *command: str) -> list[str]:
    """The command that runs a program in a network namespace.

    Not ``ip netns exec``: it also makes a mount namespace, which fails in a chroot whose root isn't a mount.
    """
    return [*([] if namespace is None else ["nsenter", f"--net={NAMESPACES / namespace}"]), *command]


def ip(namespace: str | None, *arguments: str) -> list[str]:
    """The command that runs iproute2's ip in a network namespace, as :func:`inside` does."""
    return inside(namespace, "ip", *arguments)


def missing(program: str) -> str:
    """What to do about a missing program."""
    package = PACKAGES.get(program, program)
    return f"the program {program} isn't installed. On Debian and Ubuntu, run: sudo apt-get install {package}"
