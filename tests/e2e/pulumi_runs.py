"""A run of Pulumi that can be watched, and killed."""

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from rich.console import Console

from sandbox import pulumi
from sandbox.console import Steps
from tests.e2e.cluster_state import STACK
from tests.e2e.conftest import PULUMI, Clone

POLL_SECONDS = 0.05
ENDING_SECONDS = 60.0


class Run:
    """``pulumi`` with what ``./dev env`` exports; when the block ends, so does it."""

    def __init__(self, clone: Clone, *words: str) -> None:
        self._command = [*PULUMI, *words]
        self._clone = clone

    def __enter__(self) -> Self:
        # A file, not a pipe: processes of a killed engine may keep a pipe open, and the test would hang
        self._printed = tempfile.NamedTemporaryFile()
        self._process = subprocess.Popen(
            self._command,
            cwd=self._clone.root,
            stdin=subprocess.DEVNULL,
            stdout=self._printed,
            stderr=subprocess.STDOUT,
            # Ctrl-C is not for it: it is ended below
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        if not self.ended:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(ENDING_SECONDS)
        self._printed.close()

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def failed(self) -> bool:
        return self._process.poll() not in (None, 0)

    @property
    def said(self) -> str:
        """What it has printed; to be asked for within the block."""
        return Path(self._printed.name).read_text(encoding="utf-8", errors="replace")

    def comes_to(self, line: str, seconds: float) -> bool:
        """Wait until it prints a line; False when it has ended without."""
        deadline = time.monotonic() + seconds
        while not re.search(line, self.said):
            if self.ended:
                return False
            assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {line!r} in\n{self.said}"
            time.sleep(POLL_SECONDS)
        return True

    def kill(self) -> None:
        """Kill the engine and nothing else: SIGKILL; then put the state right, as './dev up' does."""
        self._process.kill()
        self._process.wait(ENDING_SECONDS)
        site = self._clone.site
        pulumi.heal(site, pulumi.environment(site, None), STACK, Steps(Console(stderr=True)))

    def end(self, seconds: float) -> Self:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"pulumi goes on after {seconds:.0f} s:\n{self.said}") from error
        return self
