"""The embedded engine on a terminal of 80 columns, with a person in front of it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from engine_lab import Lab

pytestmark = pytest.mark.slow

COLUMNS = 80
CONTROL_C = b"\x03"
LONG = """
pulumi.ComponentResource("ccm-from-scratch:index:Servers", "servers")
Thing("a-name-that-is-much-longer-than-a-column-of-a-terminal-should-be", word=os.environ.get("WORD"))
"""


class Person:
    """Sees what is on the screen, and types."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes]) -> None:
        self._terminal = terminal
        self._process = process
        self._seen = b""

    @property
    def seen(self) -> str:
        """Everything that was printed, without the sequences that move the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._seen.decode(errors="replace"))

    @property
    def colors(self) -> set[str]:
        """The sequences that change how text looks."""
        return set(re.findall(r"\x1b\[[0-9;]+m", self._seen.decode(errors="replace")))

    @property
    def left_on_the_screen(self) -> list[str]:
        """The lines after the last sign of something that goes on."""
        return [line.rstrip() for line in re.split(r"… \(\d+s\)", self.seen)[-1].splitlines()]

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def wait_for(self, text: str, seconds: float = 60) -> None:
        self.wait_for_one_of(re.escape(text), seconds)

    def wait_for_one_of(self, pattern: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            assert self._read(deadline), f"'{pattern}' was not shown: {self.seen[-2000:]}"

    def wait(self, seconds: float = 60) -> int:
        """Look on until the program ends; its exit status."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self._process.wait(timeout=60)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], max(0, deadline - time.monotonic()))
        try:
            data = os.read(self._terminal, 65536) if ready else b""
        except OSError:  # what Linux says of a terminal that nobody writes to any more
            return False
        self._seen += data
        return bool(data)


@contextmanager
def at_a_terminal(lab: Lab, *arguments: str, **more: str) -> Iterator[Person]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    environment: dict[str, Any] = {**lab.environment, "TERM": "xterm", **more}
    process = subprocess.Popen(
        lab.command(*arguments),
        cwd=lab.project,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=take_terminal,  # noqa: PLW1509  no threads yet in that child
    )
    os.close(theirs)
    try:
        yield Person(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_what_goes_on_is_shown_and_in_the_end_what_changed(lab: Lab) -> None:
    lab.program(LONG)
    with at_a_terminal(lab, "up", "--yes") as person:
        person.wait_for("Running the program … (")
        assert person.wait() == 0
        rows = person.left_on_the_screen
        assert max(map(len, rows)) <= COLUMNS
        (row,) = [row for row in rows if "pulumi-python:Resource" in row]
        assert re.search(r"a-name-that-is-\S*… created \([\d.]+s\)$", row)
        assert any(re.match(r"\+ +ccm-from-scratch:Servers +servers +created$", row) for row in rows)
    with at_a_terminal(lab, "up", "--yes") as person:
        assert person.wait() == 0
        assert not [row for row in person.left_on_the_screen if "pulumi-python" in row]
        assert "    3 unchanged" in person.left_on_the_screen


def test_control_c_is_answered_while_an_operation_still_runs(lab: Lab) -> None:
    lab.program(LONG)
    with at_a_terminal(lab, "up", "--yes", WORD="block") as person:
        person.wait_for_one_of(r"creating \([1-9]\d*s\)")  # a busy machine may skip a second
        person.type(CONTROL_C)
        person.wait_for("Interrupted: what has begun is finished and saved first. Press Ctrl-C again")
        person.wait_for("creating (")
        person.type(CONTROL_C)
        assert person.wait() == 1


def test_resources_that_came_while_a_person_was_asked_keep_the_stack(lab: Lab) -> None:
    with at_a_terminal(lab, "stack", "rm", "dev") as person:
        person.wait_for("Type its name: ")
        lab.up("Thing('t')")
        person.type(b"dev\n")
        assert person.wait() == 1
        assert "stack 'dev' still has" in person.seen
    assert "t" in lab.resources()


def test_colors_are_left_out_where_that_is_said(lab: Lab) -> None:
    lab.program("")
    for color, wanted in (("auto", True), ("never", False)):
        with at_a_terminal(lab, "preview", "--color", color) as person:
            assert person.wait() == 0
            assert bool(person.colors) is wanted
