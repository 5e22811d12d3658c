"""The command ``pulumi``: the genuine CLI where there is one, else the embedded engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from sandbox.engine.errors import EngineError

FORCE = "CCMFS_ENGINE"  # "embedded" keeps the embedded engine although a genuine CLI is there
_OURS = b"sandbox.engine"
_SCRIPT_BYTES = 64 << 10  # a console script is far smaller, the genuine CLI far larger


def find_genuine(environment: Mapping[str, str], ours: Path) -> Path | None:
    """The first ``pulumi`` on PATH that is not this command, of this or of another clone."""
    for folder in environment.get("PATH", "").split(os.pathsep):
        candidate = Path(folder or ".") / "pulumi"
        if not candidate.is_file() or not os.access(candidate, os.X_OK):
            continue
        if candidate.resolve() == ours.resolve() or _is_ours(candidate):
            continue
        return candidate
    return None


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_SCRIPT_BYTES)
    except OSError:
        return True  # unreadable: not something to hand over to
    return head.startswith(b"#!") and _OURS in head


def main(arguments: list[str] | None = None) -> None:
    """Hand over to a genuine Pulumi CLI, or run the embedded engine and exit with its status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if os.environ.get(FORCE) != "embedded":
        genuine = find_genuine(os.environ, Path(sys.argv[0]))
        if genuine is not None:
            os.execv(genuine, [str(genuine), *arguments])  # noqa: S606  that is the purpose
    from sandbox.engine.cli import run  # noqa: PLC0415  not needed where we hand over

    try:
        status = run(arguments)
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        status = 1
    except EOFError:
        print("error: no answer: the input has ended; nothing was changed", file=sys.stderr)
        status = 1
    except BrokenPipeError:
        status = 1
    except OSError as error:
        # a full disk, a missing permission: the operating system names the file
        print(f"error: {error}", file=sys.stderr)
        status = 1
    _leave(status)


def _leave(status: int) -> None:
    """Exit without waiting for threads that only relay output of processes that have ended."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass
    os._exit(status)


if __name__ == "__main__":
    main()
