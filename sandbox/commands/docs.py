"""``./dev docs``: the documentation as a site for a browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from sandbox.console import Steps
from sandbox.documentation.build import build, generator
from sandbox.errors import SandboxError
from sandbox.site import Clone

HELP = "build the documentation as a site: navigation, search, checked links; nothing in it asks elsewhere"
_MADE = "search.json"  # what a folder that we may replace has


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where it goes."""
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="of the site; default: .sandbox/documentation"
    )


def run(clone: Clone, arguments: argparse.Namespace) -> int:
    """Build it, and say how to look at it."""
    output = (arguments.output or clone.state / "documentation").resolve()
    if output.exists() and not (output / _MADE).is_file() and (output.is_file() or any(output.iterdir())):
        raise SandboxError(f"{output} is there and no site of ours: name another folder, or remove it")
    steps = Steps(Console())
    with steps.step("Generator of the documentation"):
        python = generator(clone.root, clone.cache)
    output.parent.mkdir(parents=True, exist_ok=True)
    with steps.step("Documentation"):
        pages = build(clone.root, python, output)
    steps.note(f"  {pages} pages in {output}")
    steps.note(f"\nNext:\n  python3 -m http.server --bind 127.0.0.1 --directory {output} 8000")
    return 0
