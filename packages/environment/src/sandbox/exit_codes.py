"""How a command ends for a person: with its exit code, and where it failed with one line that says why."""

import signal
import sys
from collections.abc import Callable

from ccm.output import READER_LEFT, reader_has_left
from hetzner_emulator.errors import EmulatorError
from image.errors import ImageError
from release.errors import ReleaseError
from sandbox.errors import SandboxError

FAILED, INTERRUPTED = 1, 130


def exit_code(command: Callable[[], int]) -> int:
    """Run a command and print its error; returns its exit code."""
    try:
        return command()
    except (SandboxError, EmulatorError, ImageError, ReleaseError) as error:
        print(f"✗ {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        if reader_has_left(error):
            return READER_LEFT
        # A full disk, a missing permission, a sandbox that has ended: the system names what it is about.
        print(f"✗ {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED


def ending_signals() -> list[signal.Signals]:
    """What ends a command besides Ctrl-C; ``nohup`` lets it ignore a logout, and so it does."""
    ends = (signal.SIGTERM, signal.SIGHUP)
    return [number for number in ends if signal.getsignal(number) is not signal.SIG_IGN]


def end_in_order() -> None:
    """From now on signals end the command by SystemExit, so that what it changed is undone."""
    for number in ending_signals():
        signal.signal(number, lambda received, _frame: sys.exit(128 + received))
