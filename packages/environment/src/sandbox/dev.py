"""What ``./dev COMMAND`` runs once the Python environment is there: the commands of a clone."""

import argparse
import importlib
import os
import pkgutil
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

from ccm.output import run_cli
from ccmfs_common import host
from hetzner_emulator.address import past_proxies
from sandbox import commands, daemon, environment_lock
from sandbox.errors import SandboxError
from sandbox.exit_codes import exit_code
from sandbox.file_ownership import hand_over
from sandbox.site import Clone, cache_directory, has_claim, open_clone, open_site

ROOT = Path(__file__).resolve().parents[4]
COMMANDS = tuple(module.name for module in pkgutil.iter_modules(commands.__path__))
MISUSED = 2  # argparse's own exit code


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    return run_cli(lambda: _run(sys.argv[1:] if argv is None else argv))


def _run(argv: list[str]) -> int:
    name, arguments = parse(argv)
    try:
        return exit_code(lambda: perform(name, arguments, ROOT))
    finally:
        hand_over(ROOT, cache_directory(os.environ), os.environ)


def perform(name: str, arguments: argparse.Namespace, root: Path) -> int:
    """Run a command that was understood; returns its exit code."""
    module, clone = _module(name), open_clone(root, os.environ)
    with environment_lock.changing(clone, name) if _is(module, "CHANGES") else nullcontext():
        if hasattr(module, "check"):
            module.check(clone, arguments)
        code: int = module.run(place(name, root), arguments)
        return code


def place(name: str, root: Path) -> Clone:
    """What a command works on: the clone, or also its addresses, past a proxy that is set."""
    module, clone = _module(name), open_clone(root, os.environ)
    if _is(module, "WITHOUT_ADDRESSES"):
        os.environ.update(past_proxies(os.environ))
        return clone
    if not _is(module, "CLAIMS") and not has_claim(clone):
        raise SandboxError("the sandbox of this clone isn't running; start it with './dev up'")
    site = open_site(root, os.environ, host.used_ranges, host.port_is_free)
    os.environ.update(past_proxies(os.environ, site.public_range))
    return site if _is(module, "STARTS") else daemon.located(site)


def parse(argv: list[str]) -> tuple[str, argparse.Namespace]:
    """The command's name and its arguments; exits with 2 and a message where they are wrong."""
    named = [name for name in argv[:1] if name in COMMANDS]
    if named and _is(_module(argv[0]), "WRAPS"):
        return argv[0], argparse.Namespace(arguments=argv[1:])
    parser = argparse.ArgumentParser(
        prog="./dev", description="The development environment of ccm-from-scratch."
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # Only the module of the command that was asked for is imported; all of them for help.
    for name in named or COMMANDS:
        module = _module(name)
        command = subparsers.add_parser(name, help=module.HELP, description=module.HELP)
        if hasattr(module, "add_arguments"):
            module.add_arguments(command)
    if not argv:
        parser.print_help(sys.stderr)
        parser.exit(MISUSED)
    arguments = parser.parse_args(argv)
    return arguments.command, arguments


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"sandbox.commands.{name}")


def _is(module: ModuleType, trait: str) -> bool:
    return getattr(module, trait, False)
