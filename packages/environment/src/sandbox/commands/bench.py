"""``./dev bench NAME``: comparisons, each a program that prints a table.

They are in ``bench/``, and in ``tests/e2e`` those that measure what end-to-end tests do.
"""

import argparse
import ast
import os
import re
import sys
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.site import Clone

HELP = "run a benchmark, or list all benchmarks"
WRAPS = WITHOUT_ADDRESSES = True


def run(clone: Clone, arguments: argparse.Namespace) -> int:  # noqa: RET503 - it becomes the comparison
    """Run or list."""
    known = comparisons(clone.root)
    if not arguments.arguments or arguments.arguments[0] in ("-h", "--help"):
        width = max(map(len, known))
        print("\n".join(f"{name:<{width}}  {headline(path.read_text())}" for name, path in known.items()))
        print(
            "\n./dev bench NAME runs one benchmark. ./dev bench NAME --help explains what the "
            "benchmark measures."
        )
        return 0
    asked, *rest = arguments.arguments
    name = asked.replace("-", "_")
    if name not in known:
        raise SandboxError(f"unknown benchmark {asked!r}; allowed: {', '.join(known)}")
    os.chdir(clone.root)
    # It replaces this process, so that Ctrl-C only reaches the comparison, which ends its children.
    os.execv(sys.executable, [sys.executable, str(known[name]), *rest])  # noqa: S606 - no shell is wanted


def comparisons(root: Path) -> dict[str, Path]:
    """The program of each comparison by its name."""
    paths = [*(root / "bench").glob("[a-z]*.py"), *(root / "tests/e2e").glob("bench_*.py")]
    return dict(sorted((path.stem.removeprefix("bench_"), path) for path in paths))


def headline(source: str) -> str:
    """The subject of a comparison: the first line of its docstring without the command."""
    first = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    return re.sub(r"^``[^`]*``: |: ``[^`]*``", "", first).replace("``", "").strip(".")
