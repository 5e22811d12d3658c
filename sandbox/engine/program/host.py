"""Starts the program's process early and feeds it when the engine is ready."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sandbox.engine import children


class ProgramHost:
    """The process that runs the Pulumi program.

    Args:
        program: Folder or file to run; its folder is the working directory.
        environment: Environment variables.
        output: Gets every line that the program prints.
    """

    def __init__(self, program: Path, environment: Mapping[str, str], output: Callable[[str], None]) -> None:
        self._program = program
        self._process = children.start("sandbox.engine.program.child", program, environment)
        self._reader = children.relay(self._process, output)

    def start(self, settings: Mapping[str, Any]) -> None:
        """Let the program begin."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended already; wait() tells the status
            self._process.stdin.write(json.dumps({"program": str(self._program), **settings}) + "\n")
            self._process.stdin.flush()

    def wait(self) -> int:
        """Wait for the program's end and all that it printed; the exit status."""
        status = self._process.wait()
        self._reader.join(timeout=10)  # not for ever: what the program started may hold its output open
        return status

    def kill(self) -> None:
        """End the program and what it started at once."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
