"""Shell scripts in place of a server's programs."""

import subprocess
from pathlib import Path


def programs(folder: Path, **scripts: str) -> str:
    """Writes shell scripts as programs into a folder; returns the PATH with these and the system's."""
    folder.mkdir(exist_ok=True)
    for name, script in scripts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def sh(script: str, path: str | None = None, *, check: bool = True, **variables: str):
    """Runs a script from standard input, as on a server; without a PATH, with this process' environment."""
    environment = {"PATH": path, **variables} if path else None
    run = {"capture_output": True, "text": True, "timeout": 60}
    return subprocess.run(["sh", "-s"], input=script, env=environment, check=check, **run)
