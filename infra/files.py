"""Files that the program leaves in the clone for a person: all private, all ignored by git."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
"""The clone: the folder of Pulumi.yaml."""
IN_FILE = "in_file"


def supplied(name: str) -> Path:
    """What comes with these modules: beside their folder in a clone, in it where they were installed."""
    inside = Path(__file__).resolve().parent / name
    return inside if inside.exists() else ROOT / name


def in_no_file(in_file: bool) -> dict[str, bool]:  # noqa: FBT001  it becomes an input of that name
    """The input which says that a secret is kept in the state alone; none where it is in a file, too."""
    return {} if in_file else {IN_FILE: False}


def is_filed(props: Mapping[str, Any]) -> bool:
    """Whether the secret with these inputs is also in a file; only that it is not stands in a state."""
    return props.get(IN_FILE) is not False


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
