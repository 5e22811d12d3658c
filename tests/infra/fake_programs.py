"""Shell scripts in place of a server's programs."""

from __future__ import annotations

from pathlib import Path


def programs(folder: Path, **scripts: str) -> str:
    """Writes programs.

    Args:
        folder: Created if need be.
        scripts: The shell commands of each, by its name.

    Returns:
        The PATH with these and the system's.
    """
    folder.mkdir(exist_ok=True)
    for name, script in scripts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"
