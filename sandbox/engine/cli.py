"""The command line: what the engine has of the Pulumi CLI's; everything else is an error that names it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from sandbox.engine import BANNER
from sandbox.engine.errors import UsageError

_KNOWN_ELSEWHERE = (
    "the embedded engine has no {what}; the Pulumi CLI may have it (put it on PATH and it is used)"
)


_COMMAND = "COMMAND"


class _Parser(argparse.ArgumentParser):
    """Errors become our own, and name what was not understood."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments: "):
            argument = message.removeprefix("unrecognized arguments: ").split()[0]
            message = _KNOWN_ELSEWHERE.format(what=f"argument '{argument}' for '{self.prog}'")
        elif message.startswith(f"argument {_COMMAND}: invalid choice: "):
            given = message.split("invalid choice: ")[1].split(" ")[0]
            message = (
                _KNOWN_ELSEWHERE.format(what=f"command {given} in '{self.prog}'")
                + f"; try '{self.prog} --help'"
            )
        raise UsageError(message)


# Of the arguments that every command has. The parsers themselves have no defaults, which would win over what
# stands before a command's name.
_COMMON = {
    "stack": None,
    "cwd": ".",
    "non_interactive": False,
    "verbose": 0,
    "color": "auto",
    "logtostderr": False,
}


def _common() -> argparse.ArgumentParser:
    common = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("-s", "--stack", help="the stack to work on")
    common.add_argument("-C", "--cwd", help="work as if started in this folder")
    common.add_argument("--non-interactive", action="store_true", help="never ask")
    common.add_argument("-v", "--verbose", nargs="?", const=1, type=int, help="show debug messages")
    common.add_argument("--color", choices=("auto", "always", "never", "raw"), help="colors")
    common.add_argument("--logtostderr", action="store_true", help=argparse.SUPPRESS)
    return common


def _operation(common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    shared = _Parser(add_help=False, parents=[common])
    shared.add_argument("-p", "--parallel", type=int, default=16, help="operations at once")
    shared.add_argument("--show-secrets", action="store_true", help="show secret outputs")
    shared.add_argument(
        "-r",
        "--refresh",
        nargs="?",
        const="true",
        choices=("true", "false"),
        help="refresh first; or not, whatever Pulumi.yaml says",
    )
    shared.add_argument("--suppress-outputs", action="store_true", help="don't print the stack's outputs")
    shared.add_argument("-m", "--message", help=argparse.SUPPRESS)
    return shared


def _changing(parent: argparse.ArgumentParser) -> argparse.ArgumentParser:
    changing = _Parser(add_help=False, parents=[parent])
    changing.add_argument("-y", "--yes", action="store_true", help="don't ask")
    changing.add_argument("-f", "--skip-preview", action="store_true", help="don't show a preview first")
    return changing


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    common = _common()
    operation = _operation(common)
    changing = _changing(operation)
    root = _Parser(prog="pulumi", description=BANNER, parents=[_common()])
    root.set_defaults(**_COMMON)
    commands = root.add_subparsers(dest="command", metavar=_COMMAND, required=True)
    replacing = _Parser(add_help=False)
    replacing.add_argument("--replace", action="append", default=[], metavar="URN", help="make it anew")
    for name, alias, parents, text in (
        ("up", "update", [changing, replacing], "create or change the stack's resources"),
        ("preview", "pre", [operation, replacing], "show what 'up' would do"),
        ("refresh", "ref", [changing], "compare the state with what is there"),
        ("destroy", "down", [changing], "delete all of the stack's resources"),
    ):
        command = commands.add_parser(name, aliases=[alias], parents=parents, help=text)
        command.set_defaults(operation=name)
    command.add_argument("--remove", action="store_true", help="remove the stack and its file afterwards")
    cancel = commands.add_parser(
        "cancel", parents=[common], help="remove the lock that a killed run has left on a stack"
    )
    cancel.add_argument("name", nargs="?", help="the stack")
    cancel.add_argument("-y", "--yes", action="store_true", help="don't ask")
    commands.add_parser("version", help="print the version of the SDK that the engine serves")
    stack = commands.add_parser("stack", parents=[common], help="work with stacks")
    stack.add_argument("-u", "--show-urns", action="store_true", help="print the URN of each resource")
    _stack_commands(stack, common)
    _config_commands(commands.add_parser("config", parents=[common], help="work with configuration"), common)
    return root


def _stack_commands(stack: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    commands = stack.add_subparsers(dest="action", metavar=_COMMAND)
    output = commands.add_parser("output", parents=[common], help="print the stack's outputs")
    output.add_argument("name", nargs="?")
    output.add_argument("-j", "--json", action="store_true")
    output.add_argument("--show-secrets", action="store_true")
    listing = commands.add_parser("ls", parents=[common], help="list the stacks")
    listing.add_argument("-j", "--json", action="store_true")
    export = commands.add_parser("export", parents=[common], help="print the state")
    export.add_argument("--file")
    export.add_argument("--show-secrets", action="store_true")
    importing = commands.add_parser("import", parents=[common], help="replace the state")
    importing.add_argument("--file")
    init = commands.add_parser("init", parents=[common], help="make a stack")
    init.add_argument("name", nargs="?")
    init.add_argument("--no-select", action="store_true")
    init.add_argument("--secrets-provider", default="passphrase", choices=("passphrase", "default"))
    select = commands.add_parser("select", parents=[common], help="make a stack the current one")
    select.add_argument("name", nargs="?")
    select.add_argument("-c", "--create", action="store_true")
    remove = commands.add_parser("rm", parents=[common], help="remove a stack")
    remove.add_argument("name", nargs="?")
    remove.add_argument("-y", "--yes", action="store_true")
    remove.add_argument("-f", "--force", action="store_true")
    remove.add_argument("--preserve-config", action="store_true")


def _config_commands(config: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    config.add_argument("-j", "--json", action="store_true")
    config.add_argument("--show-secrets", action="store_true")
    commands = config.add_subparsers(dest="action", metavar=_COMMAND)
    setting = commands.add_parser("set", parents=[common], help="set a value")
    setting.add_argument("key")
    setting.add_argument("value", nargs="?")
    setting.add_argument("--secret", action="store_true")
    setting.add_argument("--plaintext", action="store_true")
    setting.add_argument("--path", action="store_true")
    getting = commands.add_parser("get", parents=[common], help="print a value")
    getting.add_argument("key")
    getting.add_argument("-j", "--json", action="store_true")
    getting.add_argument("--path", action="store_true")
    removing = commands.add_parser("rm", parents=[common], help="remove a value")
    removing.add_argument("key")
    removing.add_argument("--path", action="store_true")


def run(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run a command line; the exit status.

    Raises:
        EngineError: With one clear message.
    """
    if not arguments:  # as the Pulumi CLI does
        parser().print_help()
        return 0
    parsed = parser().parse_args(list(arguments))
    environment = os.environ if environment is None else environment
    if parsed.command == "version":
        from importlib.metadata import version  # noqa: PLC0415

        print(f"v{version('pulumi')}")
        print(BANNER, file=sys.stderr)
        return 0
    return _command(parsed.command)(parsed, Path(parsed.cwd), environment)


def _command(name: str) -> Callable[[argparse.Namespace, Path, Mapping[str, str]], int]:
    if name == "stack":
        from sandbox.engine.commands import stacks  # noqa: PLC0415  each command loads only what it needs

        return stacks.run
    if name == "cancel":
        from sandbox.engine.commands import stacks  # noqa: PLC0415

        return stacks.cancel
    if name == "config":
        from sandbox.engine.commands import configuration  # noqa: PLC0415

        return configuration.run
    from sandbox.engine.commands import operations  # noqa: PLC0415

    return operations.run
