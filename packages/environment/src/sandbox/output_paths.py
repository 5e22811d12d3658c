"""Whether what a command makes can be kept where ``--output`` says, judged before anything is made."""

import os
from pathlib import Path

from sandbox.errors import SandboxError


def check_file(path: Path) -> None:
    """Check that a file can be written; its folder must exist."""
    _check(path, path.absolute().parent)


def check_folder(folder: Path) -> None:
    """Make sure that something can be kept in a folder, which need not be there yet."""
    whole = folder.absolute()
    # Of a folder that we may not look into, nothing is there to us; exists() would raise.
    _check(folder, next(path for path in (whole, *whole.parents) if os.access(path, os.F_OK)))


def _check(output: Path, above: Path) -> None:
    if not os.access(above, os.W_OK | os.X_OK) or not above.is_dir():
        raise SandboxError(f"--output {output}: {above} isn't a writable folder")
