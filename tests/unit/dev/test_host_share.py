"""Tests with machines wait for each other where the host has not enough for both."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from host_share import Share, in_turn

TESTS = Path(__file__).parents[2]
TAKE = """
import sys
from pathlib import Path
from host_share import Share
share = Share(Path(sys.argv[1]), 10)
share.take(int(sys.argv[2]))
print("taken", flush=True)
sys.stdin.readline()
"""


@contextmanager
def other(file: Path, number: int) -> Iterator[subprocess.Popen[str]]:
    """Another process that takes so many of ten; at the end it is killed."""
    command = [sys.executable, "-c", TAKE, str(file), str(number)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={"PYTHONPATH": f"{TESTS}:{TESTS.parent}"}, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def share(tmp_path: Path) -> Iterator[Share]:
    opened = Share(tmp_path / "tests.lock", 10)
    yield opened
    opened.close()


def test_what_fits_is_taken_side_by_side_and_the_rest_waits_until_it_is_given_back(tmp_path, share):
    share.take(6)
    with other(tmp_path / "tests.lock", 4) as small:
        assert small.stdout.readline() == "taken\n"
        with other(tmp_path / "tests.lock", 7) as large:
            assert large.poll() is None
            share.give_back()
            small.kill()  # what a killed process had is free
            assert large.stdout.readline() == "taken\n"
            share.take(3)
            assert len(share.held) == 3


def test_who_wants_more_than_there_is_gets_all(share):
    share.take(11)
    assert len(share.held) == 10


def test_small_modules_come_among_large_ones_and_none_is_lost():
    needs = {"a": 50, "b": 24, "c": 24, "d": 74, "e": 50, "f": 0, "g": 50, "h": 24, "i": 38, "j": 24}
    modules = {Path(name): number for name, number in needs.items()}
    assert "".join(map(str, in_turn(modules))) == "adbegcifhj"
    assert in_turn({}) == []


def test_a_module_takes_but_once(share):
    share.take(2)
    share.take(9)
    assert len(share.held) == 2
