"""``./dev bench NAME``: comparisons, each a command under ``bench/`` that prints a table."""

from __future__ import annotations

import argparse
import subprocess
import sys

from sandbox.errors import SandboxError
from sandbox.site import Site

HELP = "run a comparison and print its table; without a name: list them"


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Everything after the name is the comparison's."""


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Run or list."""
    known = sorted(path.stem for path in (site.root / "bench").glob("[a-z]*.py"))
    if not arguments.arguments:
        print("\n".join(known))
        return 0
    name, *rest = arguments.arguments
    if name not in known:
        raise SandboxError(f"there is no comparison {name!r}; there are: {', '.join(known)}")
    script = site.root / "bench" / f"{name}.py"
    return subprocess.run([sys.executable, str(script), *rest], cwd=site.root, check=False).returncode
