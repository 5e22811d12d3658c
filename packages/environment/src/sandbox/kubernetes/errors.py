"""Errors of the toolchain and the machine image; every message says what to do.

KubernetesSandboxError
├── ToolchainError       the Kubernetes programs can't be built here
│   ├── GoMissingError   no usable Go compiler
│   └── KubernetesVersionError  a version of Kubernetes that there is not here
├── CommandError         a program that we ran failed
├── CommandMissingError  a program that we need is not installed
├── ImageError           the machine image can't be built here
├── ControlPlaneError    a component of the control plane did not start, or ended
├── CacheError           a file in the cache can't be written or read
└── InstallerError       the k3s program that shall be served can't be read
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sandbox.errors import SandboxError


class KubernetesSandboxError(SandboxError):
    """Root of what this package raises."""


class ToolchainError(KubernetesSandboxError):
    """The Kubernetes programs can't be built here."""


class GoMissingError(ToolchainError):
    """No usable Go compiler: none on PATH, none from PyPI.

    Attributes:
        needed: The lowest version that compiles the pinned modules.
        reason: What was tried and how it ended.
    """

    def __init__(self, needed: str, reason: str) -> None:
        self.needed = needed
        self.reason = reason
        super().__init__(
            f"Go {needed} or newer is needed to build Kubernetes: {reason}. Install Go and put it on PATH."
        )


class KubernetesVersionError(ToolchainError):
    """A version of Kubernetes that there is not here.

    Attributes:
        where: The option or setting that asked for it.
        value: What it says.
        allowed: What it may say.
    """

    def __init__(self, where: str, value: str, allowed: Collection[str]) -> None:
        self.where = where
        self.value = value
        self.allowed = tuple(allowed)
        super().__init__(
            f"{where} {value}: the sandbox has no such Kubernetes; there are {', '.join(allowed)}"
        )


class CommandError(KubernetesSandboxError):
    """A program that we ran failed.

    Attributes:
        command: Its name and arguments.
        status: Exit status.
        tail: The last lines that it printed.
    """

    def __init__(self, what: str, command: tuple[str, ...], status: int, tail: str) -> None:
        self.command = command
        self.status = status
        self.tail = tail
        super().__init__(f"{what} failed: {command[0]} ended with {status}:\n{tail}")


class CommandMissingError(KubernetesSandboxError):
    """A program that we need is not installed.

    Attributes:
        program: Its name.
        package: The Debian package that has it.
    """

    def __init__(self, program: str, package: str) -> None:
        self.program = program
        self.package = package
        super().__init__(f"{program} is not installed. On Debian and Ubuntu: apt-get install {package}")


class ImageError(KubernetesSandboxError):
    """The machine image can't be built here."""


class ControlPlaneError(KubernetesSandboxError):
    """A component of the control plane did not start or ended.

    Attributes:
        component: For example ``kube-apiserver``.
        log: Its log file.
        tail: The log's last lines.
    """

    def __init__(self, component: str, reason: str, log: Path, tail: str) -> None:
        self.component = component
        self.log = log
        self.tail = tail
        super().__init__(f"{component} {reason}. The end of {log}:\n{tail}")


class CacheError(KubernetesSandboxError):
    """A file in the cache can't be written or read.

    Attributes:
        folder: In which it is.
        reason: What the system says, such as a full disk.
    """

    def __init__(self, folder: Path, reason: OSError) -> None:
        self.folder = folder
        self.reason = reason
        super().__init__(
            f"{folder} can't be written: {reason}. Make room or give us a right to write, then repeat."
        )


class InstallerError(KubernetesSandboxError):
    """The k3s program that shall be served can't be read."""
