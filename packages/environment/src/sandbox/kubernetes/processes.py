"""Running a program to its end, with progress while it lasts and its last lines when it fails."""

import re
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandbox.errors import MissingRequirement, SandboxError

Progress = Callable[[str], None]
"""A function that receives each progress message."""

PROGRESS_SECONDS = 5.0
_TAIL_LINES = 15
_PACKAGE = re.compile(r"[\w./~+-]+")  # 'go build -v' prints further packages after an error


class CommandError(SandboxError):
    """A program failed."""

    def __init__(self, what: str, program: str, status: int, tail: str) -> None:
        super().__init__(f"{what} failed: {program} ended with {status}:\n{tail}")
        self.tail = tail


def require(program: str, package: str) -> str:
    """The path of a program that the host must have."""
    path = shutil.which(program)
    if path is None:
        raise MissingRequirement(
            f"{program} is not installed. On Debian and Ubuntu: apt-get install {package}"
        )
    return path


def run(
    what: str,
    command: Sequence[str],
    *,
    progress: Progress,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = 1800,
    left: Callable[[int], str] | None = None,
) -> str:
    """Run a program and return what it printed (both streams).

    ``progress`` is called every five seconds with the time taken and the last line. ``left`` returns a text
    in place of the time, from the number of lines. The program is killed after ``timeout`` seconds.
    """
    lines: list[str] = []
    started = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        ended = threading.Event()

        def report() -> None:
            while not ended.wait(PROGRESS_SECONDS):
                elapsed = time.monotonic() - started
                if elapsed > timeout:
                    lines.append(f"killed after {timeout:.0f} s")
                    process.kill()
                    return
                last = lines[-1].strip()[:60] if lines else ""
                far = left(len(lines)) if left else f"{elapsed:.0f} s, {len(lines)} steps"
                progress(f"{what}: {far}, {last}")

        reporter = threading.Thread(target=report, daemon=True)
        reporter.start()
        try:
            assert process.stdout is not None
            lines.extend(line.rstrip() for line in process.stdout)
            status = process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            ended.set()
            reporter.join()
    if status != 0:
        shown = [line for line in lines if not _PACKAGE.fullmatch(line)] or lines
        raise CommandError(what, command[0], status, "\n".join(deque(shown, _TAIL_LINES)))
    return "\n".join(lines)
