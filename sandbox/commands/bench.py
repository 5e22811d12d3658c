"""``./dev bench NAME``: comparisons, each a command under ``bench/`` that prints a table."""

from __future__ import annotations

import argparse
import os
import sys

from sandbox.errors import SandboxError
from sandbox.site import Site

HELP = "run a comparison and print its table; without a name: list them"


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Everything after the name is the comparison's."""


def run(site: Site, arguments: argparse.Namespace) -> int:  # noqa: RET503 - it becomes the comparison
    """Run or list."""
    known = sorted(path.stem for path in (site.root / "bench").glob("[a-z]*.py"))
    if not arguments.arguments:
        print("\n".join(known))
        return 0
    name, *rest = arguments.arguments
    if name not in known:
        raise SandboxError(f"there is no comparison {name!r}; there are: {', '.join(known)}")
    script = site.root / "bench" / f"{name}.py"
    os.chdir(site.root)
    # In our place, not below us: Ctrl-C is then the comparison's alone, which ends what it started.
    os.execv(sys.executable, [sys.executable, str(script), *rest])  # noqa: S606 - no shell is wanted
