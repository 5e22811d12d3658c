"""``python -m ccm``: the cloud-controller-manager; ``plan`` and ``lint`` are commands of their own."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from typing import cast

from ccm.output import print_errors, run_cli
from ccm.startup import frozen_gc_imports

# Imported only when they are called: each needs half of the program.
COMMANDS = {"plan": "ccm.tools.plan:main", "lint": "ccm.tools.lint:main"}
DEFAULT = "ccm.manager.command:main"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that this process' command line, or the given one, names; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return run_cli(lambda: _run(given))


def _run(given: list[str]) -> int:
    place = COMMANDS.get(given[0]) if given else None
    module, _, function = (place or DEFAULT).partition(":")
    if place is not None:
        if importlib.util.find_spec(module) is None:
            return print_errors([f"the command {given[0]} isn't part of this build"])
        given = given[1:]
    with frozen_gc_imports():
        command = cast("Callable[[list[str]], int]", getattr(importlib.import_module(module), function))
    return command(given)


if __name__ == "__main__":
    sys.exit(main())
