"""The engine's child processes: how they are started, and how they end with the engine whatever ends that."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

FAILED = 1


def start(module: str, program: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Run one of our modules as a process of its own; its stderr goes to its stdout.

    Args:
        module: Its name; it calls ``own_stdin`` and ``end_with``.
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


def own_stdin() -> BinaryIO:
    """In a child: the pipe from the engine; what runs in the child reads nothing from it."""
    pipe = os.fdopen(os.dup(0), "rb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return pipe


def end_with(pipe: BinaryIO) -> None:
    """In a child: leave at once, with status ``FAILED``, when the engine and so the pipe's end is gone."""

    def work() -> None:
        while pipe.read(4096):
            pass
        os._exit(FAILED)

    threading.Thread(target=work, daemon=True).start()
