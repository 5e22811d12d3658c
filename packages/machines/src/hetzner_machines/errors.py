"""Errors whose text says what to do.

Most functions of this package may raise BackendError. Docstrings name only errors that callers distinguish.
"""

from collections.abc import Sequence
from pathlib import Path

from hetzner_emulator.backend import BackendError


class CommandFailed(BackendError):
    """A program that we ran ended with an error."""

    def __init__(self, command: Sequence[str], status: int, output: str) -> None:
        self.output = output
        super().__init__(
            f"the command '{' '.join(command)}' failed with exit status {status}: {output.strip()[-500:]}"
        )


class NotPermitted(BackendError):
    """The kernel refused something that machines need."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(
            f"could not {what}: {error.strerror or error}. To check this host, run './dev doctor'"
        )


class NoWayOut(BackendError):
    """The host has no way to the Internet itself."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"--internet: machines can't use the Internet connection of this host: {reason}")


class DiskFull(BackendError):
    """No space left on the file system of a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the disk of {path} is full. Free some space, and try again. To see the used space, run 'df "
            f"-h {path}'"
        )


class VolumeBusy(BackendError):
    """A volume is mounted or open."""

    def __init__(self, volume_id: int) -> None:
        super().__init__(
            f"volume {volume_id} is in use on its server. Unmount the volume on the server first"
        )


class StillThere(BackendError):
    """Something of ours could not be removed."""

    def __init__(self, what: Sequence[str]) -> None:
        super().__init__(
            f"could not remove {', '.join(what)}. End the processes that use these resources, and run "
            "'./dev down --force'"
        )
