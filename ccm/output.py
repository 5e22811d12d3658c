"""Error messages and exit codes of all commands, also if a reader closes the pipe, as with ``| head``."""

import errno
import os
import select
import sys
from collections.abc import Callable, Iterable

# Exit codes: success; a failure or findings; a wrong command line or environment.
OK, FAILED, MISUSED = 0, 1, 2
READER_LEFT = 141  # as a shell reports a program that SIGPIPE ended
_STANDARD_OUTPUT = 1  # its file descriptor


def print_errors(problems: Iterable[object], code: int = MISUSED) -> int:
    """Print each problem as an error; returns the exit code."""
    for problem in problems:
        print(f"Error: {problem}", file=sys.stderr)
    return code


def reader_has_left(error: OSError) -> bool:
    """Whether the reader of our standard output is gone. If so, the rest of the output is discarded."""
    if not isinstance(error, BrokenPipeError):
        return False
    output = select.poll()
    output.register(_STANDARD_OUTPUT, select.POLLOUT)
    if not any(event & select.POLLERR for _, event in output.poll(0)):
        return False
    _print_nowhere()
    return True


def _print_nowhere() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STANDARD_OUTPUT)
    os.close(nowhere)


def run_cli(run: Callable[[], int]) -> int:
    """Run a command; returns its exit code, READER_LEFT, or FAILED if the disk is full."""
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="replace")  # not every terminal supports our characters
    try:
        try:
            return run()
        finally:
            if sys.stdout is not None:  # None = the parent process closed it
                sys.stdout.flush()
    except BrokenPipeError as error:
        if reader_has_left(error):
            return READER_LEFT
        raise
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _print_nowhere()  # otherwise, Python would try again to print the rest at its end
        return print_errors([error.strerror], FAILED)
