"""Child processes of tests."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run(
    command: Sequence[str | Path], *, check: bool = False, timeout: float = 60, **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=timeout, **options)


def script(path: Path, body: str) -> Path:
    """Write an executable shell script, and the folder for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path
