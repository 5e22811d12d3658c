import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from image.errors import ImageError
from release.errors import ReleaseError
from sandbox.errors import SandboxError
from sandbox.exit_codes import exit_code
from tests.child_processes import run

ROOT = Path(__file__).resolve().parents[3]
PLAIN = """
import os, signal, sys
from sandbox.exit_codes import end_in_order, exit_code

def command():
    end_in_order()
    try:
        for name in sys.argv[1:]:
            os.kill(os.getpid(), signal.Signals[name])
        return 0
    finally:
        print("undone")

sys.exit(exit_code(command))
"""
ASYNCHRONOUS = """
import asyncio, os, signal, sys
from sandbox.commands.compare import interruptible
from sandbox.exit_codes import exit_code

async def work():
    try:
        for name in sys.argv[1:]:
            os.kill(os.getpid(), signal.Signals[name])
        await asyncio.Event().wait()
    finally:
        print("undone")

sys.exit(exit_code(lambda: asyncio.run(interruptible(work()))))
"""


@pytest.fixture(autouse=True)
def _terminal() -> Iterator[None]:
    """What is started here heeds a hangup, also where nohup has started the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.parametrize("code", [PLAIN, ASYNCHRONOUS], ids=["plain", "asynchronous"])
@pytest.mark.parametrize(
    ("started_by", "sent", "ended_by"),
    [
        ([], ["SIGINT"], signal.SIGINT),
        ([], ["SIGTERM"], signal.SIGTERM),
        ([], ["SIGHUP"], signal.SIGHUP),
        (["nohup"], ["SIGHUP", "SIGTERM"], signal.SIGTERM),
    ],
    ids=["SIGINT", "SIGTERM", "SIGHUP", "nohup"],
)
def test_signals_end_a_command_in_order(code, started_by, sent, ended_by):
    command = [*started_by, sys.executable, "-c", code, *sent]
    done = run(command, cwd=ROOT)
    assert (done.returncode, done.stdout) == (128 + ended_by, "undone\n"), done.stderr


@pytest.mark.parametrize("error", [SandboxError("no"), ImageError("no"), ReleaseError("no")])
def test_errors_end_a_command_with_one_line(error, capsys):
    def fail():
        raise error

    assert exit_code(fail) == 1
    assert capsys.readouterr().err == "✗ no\n"
