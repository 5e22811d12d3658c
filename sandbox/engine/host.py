"""Starts the program's process early and feeds it when the engine is ready."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class ProgramHost:
    """The process that runs the Pulumi program.

    Args:
        program: Folder or file to run; its folder is the working directory.
        environment: Environment variables.
        output: Gets every line that the program prints.
    """

    def __init__(self, program: Path, environment: Mapping[str, str], output: Callable[[str], None]) -> None:
        self._program = program
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "sandbox.engine.program"],
            cwd=program if program.is_dir() else program.parent,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the engine, which ends the program in order
        )
        self._reader = threading.Thread(target=self._relay, args=(output,), daemon=True)
        self._reader.start()

    def start(self, settings: Mapping[str, Any]) -> None:
        """Let the program begin."""
        line = json.dumps({"program": str(self._program), **settings}) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # it ended already; wait() tells the status

    def wait(self) -> int:
        """Wait for the program's end and all that it printed; the exit status."""
        status = self._process.wait()
        self._reader.join(timeout=10)  # not for ever: what the program started may hold its output open
        return status

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End the program and what it started at once."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
        self._process.wait()

    def _relay(self, output: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            output(line.decode(errors="replace").rstrip("\n"))
