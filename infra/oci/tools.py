"""Programs of this machine that build the image, run with time limits and errors that say what to do."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.errors import ImageBuildError
from infra.remote import tail

ADVICE = (
    "either build it elsewhere with ccm/Dockerfile, push it to a registry and set ccm-from-scratch:ccmImage "
    "to its reference, or run this as root on Debian or Ubuntu (amd64) with: apt-get install mmdebstrap"
)


def check_machine() -> None:
    """Refuses machines that can't build the image.

    Raises:
        ImageBuildError: Says what is missing and what else can be done.
    """
    missing = []
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        missing.append(f"this machine is {platform.system()} on {platform.machine()}")
    elif os.geteuid() != 0:
        missing.append("you are not root")
    if not shutil.which("mmdebstrap"):
        missing.append("mmdebstrap is not installed")
    if missing:
        raise ImageBuildError(f"the image of the CCM can't be built here: {' and '.join(missing)}; {ADVICE}")


def run(what: str, command: Sequence[str], timeout: float) -> None:
    """Runs a program quietly.

    Args:
        what: Names it in errors, as in "installing the dependencies".
        command: Program and arguments; no shell.
        timeout: Seconds.

    Raises:
        ImageBuildError: With the last lines of its output.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ImageBuildError(f"{what} took more than {timeout:.0f} s") from error
    if done.returncode:
        raise ImageBuildError(
            f"{what} failed with code {done.returncode}; its last lines:\n{tail(done.stdout)}"
        )


def installer(cache: Path) -> list[str]:
    """The command that installs Python packages into a folder: uv where there is one, otherwise pip."""
    bundled = sorted(cache.glob("uv-*/bin/uv"))
    uv = shutil.which("uv") or (str(bundled[-1]) if bundled else None)
    if uv:
        return [
            uv,
            "pip",
            "install",
            "--quiet",
            "--link-mode=copy",
            "--python-platform=x86_64-manylinux_2_28",
        ]
    for python in (sys.executable, shutil.which("python3") or sys.executable):
        if (
            subprocess.run(
                [python, "-m", "pip", "--version"], capture_output=True, check=False, timeout=30
            ).returncode
            == 0
        ):
            platforms = ["--platform=manylinux_2_28_x86_64", "--platform=manylinux2014_x86_64"]
            return [
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-compile",
                "--implementation=cp",
                *platforms,
            ]
    raise ImageBuildError(f"neither uv nor pip is there to install the CCM's dependencies; {ADVICE}")
