"""What ``python -m sandbox COMMAND`` is where the package was installed, without a clone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ccm.output import quietly
from sandbox.ending import exit_code
from sandbox.errors import SandboxError

SERVE = "serve"
HELP = "run the emulated Hetzner Cloud API in the foreground"
RECORDS = "records"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = sys.argv[1:] if argv is None else list(argv)
    return quietly(lambda: exit_code(lambda: _run(given)))


def _run(argv: list[str]) -> int:
    try:
        return _serve(argv)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"ccm", "sandbox"}:
            raise
        raise SandboxError(
            f"the package {error.name} is missing: install ccm-from-scratch with its extra 'sandbox'"
        ) from None


def _serve(argv: list[str]) -> int:
    if argv[:1] and not argv[0].startswith("-") and argv[0] != SERVE:
        raise SandboxError(
            f"{argv[0]!r} is no command of the installed package, which has {SERVE!r} alone; all others "
            "('up', 'deploy', …) work on a clone of ccm-from-scratch: './dev up' there"
        )
    from sandbox import alone  # noqa: PLC0415  the extra may be missing

    parser = argparse.ArgumentParser(prog="python -m sandbox", description="The sandbox of ccm-from-scratch.")
    command = parser.add_subparsers(dest="command", required=True, metavar="COMMAND").add_parser(
        SERVE, help=HELP, description=HELP
    )
    alone.add_arguments(command)
    command.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="keep objects and the token in this folder; default: in memory, until the process ends",
    )
    command.add_argument("--backend", default=RECORDS, help="records; all others need a clone")
    arguments = parser.parse_args(argv)
    if arguments.backend != RECORDS:
        raise SandboxError(
            f"--backend {arguments.backend}: servers are {RECORDS!r} in the installed package; machines and "
            "hollow nodes need a clone of ccm-from-scratch"
        )
    return alone.run(arguments, lambda text: print(text, flush=True))
