"""The engine's child processes: how they are started, and what they print."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path


def start(module: str, program: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Run one of our modules as a process of its own; its stderr goes to its stdout.

    Args:
        module: Its name; it is a child as in ``sandbox/parent.py``.
        program: Folder or file of the program; the process works in that folder.
        environment: Environment variables.
    """
    return subprocess.Popen(
        [sys.executable, "-u", "-m", module],
        cwd=program if program.is_dir() else program.parent,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is for the engine, which ends its children in order
    )


def relay(process: subprocess.Popen[str], output: Callable[[str], None]) -> threading.Thread:
    """Hand every further line that a child prints to a function, in a thread until its end."""

    def work() -> None:
        for line in process.stdout or ():
            output(line.rstrip("\n"))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
