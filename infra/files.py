"""Files that the program leaves in the clone for a person: all private, all ignored by git."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The clone: the folder of Pulumi.yaml."""


def write_private(path: Path, text: str) -> None:
    """Writes a file of mode 0600, all or nothing; nobody else can read it at any moment."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_own(path: Path, text: str) -> None:
    """Removes a file that holds exactly ``text``; another one is somebody else's."""
    if path.is_file() and path.read_text() == text:
        path.unlink()
