"""``./dev docs``: the documentation as a site for a browser."""

import argparse
from pathlib import Path

from sandbox.console import Steps
from sandbox.documentation.build import MADE, build, generator
from sandbox.errors import SandboxError
from sandbox.output_paths import check_folder
from sandbox.site import Clone

HELP = "build the documentation as a website"
WITHOUT_ADDRESSES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where it goes."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="the folder for the website (default: .sandbox/documentation)",
    )


def check(_clone: Clone, arguments: argparse.Namespace) -> None:
    """Refuse to replace files of the user."""
    if arguments.output:
        output = arguments.output.resolve()
        check_folder(output.parent)
        check_output(output)


def run(clone: Clone, arguments: argparse.Namespace) -> int:
    """Build it, and say how to look at it."""
    output = arguments.output.resolve() if arguments.output else clone.state / "documentation"
    steps = Steps()
    with steps.step("Generator of the documentation") as progress:
        python = generator(clone.root, clone.cache, progress)
    output.parent.mkdir(parents=True, exist_ok=True)
    with steps.step("Documentation") as progress:
        pages = build(clone.root, python, output, progress)
    steps.note(f"  {pages} pages in {output}")
    steps.note(f"\nNext:\n  python3 -m http.server --bind 127.0.0.1 --directory {output} 8000")
    return 0


def check_output(output: Path) -> None:
    """Refuse to replace files of the user."""
    if output.exists() and (not output.is_dir() or (any(output.iterdir()) and not (output / MADE).is_file())):
        raise SandboxError(
            f"{output} exists, but './dev docs' did not create it. Choose another folder, or remove {output}"
        )
