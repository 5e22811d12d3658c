"""``hetzner-emulator serve``: the emulated API in the foreground."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hetzner_emulator import standalone
from hetzner_emulator.errors import EmulatorError

FAILED = 1
HELP = "run the emulated Hetzner Cloud API until interrupted"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="hetzner-emulator", description="An emulator of the Hetzner Cloud API."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help=HELP, description=HELP)
    standalone.add_arguments(serve)
    serve.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="keep objects and the token in this folder (default: in memory, until the process ends)",
    )
    try:
        return standalone.run(parser.parse_args(argv), lambda text: print(text, flush=True))
    except (EmulatorError, OSError) as error:  # the operating system names the file of its errors
        print(f"✗ {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
