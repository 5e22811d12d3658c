"""What can be wrong with an image that a person brings, or on its way.

SandboxError
├── NotAnArchive   a file is no archive of container images, or one that a node can't use
├── NoSuchImage    neither a file nor a container engine of this host has it
└── NoRegistry     the sandbox's registry does not run
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ccmfs_common.terminal import printable
from sandbox.errors import SandboxError


class NotAnArchive(SandboxError):
    """A file is no archive of container images, or one that a node can't use.

    Attributes:
        path: The file.
        why: In words; what the archive says of itself is in it as a terminal may have it.
    """

    def __init__(self, path: Path, why: str) -> None:
        why = printable(why)
        self.path, self.why = path, why
        super().__init__(f"{path}: {why}")


class NoSuchImage(SandboxError):
    """Neither a file nor a container engine of this host has it.

    Attributes:
        name: What was asked for.
        answers: What each engine that was asked said; empty where there is none.
    """

    def __init__(self, name: str, answers: Mapping[str, str]) -> None:
        self.name, self.answers = name, dict(answers)
        asked = "; ".join(f"{engine}: {said}" for engine, said in answers.items())
        engines = asked or "no container engine is on PATH (docker, podman, nerdctl, ctr)"
        super().__init__(f"{name} is no file here, and no image that this host has. {engines}")


class NoRegistry(SandboxError):
    """The sandbox's registry does not run; the text says why."""
