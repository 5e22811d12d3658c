"""``python -m sandbox COMMAND``: what ``./dev COMMAND`` runs once the Python environment is there."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

from ccm.output import READER_LEFT, quietly, reader_has_left
from sandbox import host
from sandbox.environment import past_proxies
from sandbox.errors import SandboxError
from sandbox.site import open_site

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = (
    "up",
    "down",
    "status",
    "env",
    "kubectl",
    "ssh",
    "logs",
    "deploy",
    "plan",
    "doctor",
    "setup",
    "serve",
    "test",
    "bench",
)
MISUSED = 2  # argparse's own exit code
# Everything after these belongs to another program, options included.
WRAPPERS = ("kubectl", "plan", "test", "bench")


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    return quietly(lambda: _run(sys.argv[1:] if argv is None else argv))


def _run(argv: list[str]) -> int:
    name, arguments = parse(argv)
    try:
        site = open_site(ROOT, os.environ, host.used_ranges, host.port_is_free)
        os.environ.update(past_proxies(site, os.environ))
        return _module(name).run(site, arguments)
    except SandboxError as error:
        print(f"✗ {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if reader_has_left(error):
            return READER_LEFT
        # A full disk, a missing permission, a sandbox that has ended: the system names what it is about.
        print(f"✗ {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


def parse(argv: list[str]) -> tuple[str, argparse.Namespace]:
    """The command's name and its arguments; exits with 2 and a message where they are wrong."""
    if argv and argv[0] in WRAPPERS:
        return argv[0], argparse.Namespace(arguments=argv[1:])
    parser = argparse.ArgumentParser(
        prog="./dev", description="The development environment of ccm-from-scratch."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # Only the module of the command that was asked for is imported; all of them for help.
    for name in argv[:1] if argv[:1] and argv[0] in COMMANDS else COMMANDS:
        module = _module(name)
        module.add_arguments(commands.add_parser(name, help=module.HELP, description=module.HELP))
    if not argv:
        parser.print_help(sys.stderr)
        parser.exit(MISUSED)
    arguments = parser.parse_args(argv)
    return arguments.command, arguments


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"sandbox.commands.{name}")


if __name__ == "__main__":
    sys.exit(main())
