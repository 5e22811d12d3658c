"""``./dev release``: everything that is published of a commit, in one folder, built the same each time."""

import argparse
import os
from pathlib import Path

from release.make import Wish, judge, make
from release.signing import Signer, open_signer
from sandbox.console import Steps
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import HELM
from sandbox.output_paths import check_folder
from sandbox.site import Clone

HELP = "build a release of this commit: packages, chart, images and release notes"
WITHOUT_ADDRESSES = True
KEY, PASSWORD = "COSIGN_KEY", "COSIGN_PASSWORD"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where it goes, and the key that signs it."""
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="the new folder for the release (default: dist/VERSION)"
    )
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help=f"the PEM file with the private key that signs the release (default: the file that the "
        f"variable {KEY} names). Set the environment variable {PASSWORD} to the password of the key",
    )
    parser.add_argument(
        "--tag",
        help="the commit's tag: the letter v followed by the version of the source code. The "
        "changelog must list this version as released",
    )
    parser.add_argument("--check", action="store_true", help="only check whether the release can be built")
    parser.add_argument(
        "--uncommitted",
        action="store_true",
        help=(
            "include uncommitted changes, for a trial. Such a release isn't signed and isn't marked as tested"
        ),
    )


def check(_clone: Clone, arguments: argparse.Namespace) -> None:
    """Make sure that it can be kept where it was asked for."""
    if arguments.output:
        check_folder(arguments.output.absolute().parent)


def run(clone: Clone, arguments: argparse.Namespace) -> int:
    """Make it, and say where it is."""
    steps = Steps()

    def helm() -> Path:
        return toolchain.ensure(clone.cache, steps.note, [HELM]).bin / "helm"

    wish = Wish(
        clone.root,
        arguments.output,
        clone.tested,
        helm,
        _signer(arguments.key),
        arguments.tag,
        uncommitted=arguments.uncommitted,
    )
    if arguments.check:
        judged = judge(wish)
        steps.note(f"✓ {judged.title}, from {judged.origin}")
        return 0
    made = make(wish, steps.step)
    for path in sorted(made.iterdir()):
        steps.note(f"  {path.stat().st_size / 2**20:7.2f} MiB  {path.name}")
    steps.note(f"✓ {made}")
    return 0


def _signer(given: Path | None) -> Signer | None:
    path = given or (Path(os.environ[KEY]) if os.environ.get(KEY) else None)
    return None if path is None else open_signer(path, os.environ.get(PASSWORD, ""))
