"""Programs that help to build, run with time limits; errors contain the end of their output."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from image.errors import ToolError

_TAIL_LINES = 15


def run(
    what: str,
    command: Sequence[str],
    timeout: float,
    stdin: bytes = b"",
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """Run a program without a shell and return its standard output.

    ToolError has the last lines of its standard error after ``what``, such as "installing the dependencies".
    """
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            cwd=cwd,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{what} didn't finish within {timeout:.0f} s") from error
    except FileNotFoundError as error:
        raise ToolError(f"{what} failed: the program {command[0]} isn't installed") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").splitlines()[-_TAIL_LINES:]
        raise ToolError(
            f"{what} failed with exit code {done.returncode}. Last lines of the output:\n" + "\n".join(said)
        )
    return done.stdout
