"""How a command ends for a person: with its exit code, and where it failed with one line that says why."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ccm.output import READER_LEFT, reader_has_left
from sandbox.errors import SandboxError

FAILED, INTERRUPTED = 1, 130


def exit_code(command: Callable[[], int]) -> int:
    """Run a command and tell what went wrong; returns its exit code.

    Args:
        command: What is run.
    """
    try:
        return command()
    except SandboxError as error:
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
