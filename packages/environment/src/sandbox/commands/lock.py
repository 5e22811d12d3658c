"""``./dev lock``: move what is pinned on to its newest versions."""

import argparse
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from uv import find_uv_bin

from image import lockfile, recipe, resolve, toolbox, tools
from image.build import cache_folder
from image.errors import LockFileError, SignatureError
from image.lockfile import Lock, Pin
from image.mirror import open_mirror
from sandbox.console import Steps
from sandbox.kubernetes import pins
from sandbox.kubernetes_tests import recipe as test_images
from sandbox.site import Clone

HELP = "update the pinned versions of Debian, Python and Go packages"
WITHOUT_ADDRESSES = True
DEBIAN, PYTHON, GO = PINS = ("debian", "python", "go")
_SECONDS = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which pins."""
    parser.add_argument(
        "what",
        nargs="*",
        type=_pins,  # choices would refuse that nothing is given
        metavar="WHAT",
        help=f"which packages: {', '.join(PINS)} (default: all)",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep each locked version that still satisfies the requirements in pyproject.toml or go.mod",
    )


def _pins(text: str) -> str:
    if text not in PINS:
        raise argparse.ArgumentTypeError(f"{text!r} isn't one of {', '.join(PINS)}")
    return text


def run(clone: Clone, arguments: argparse.Namespace) -> int:
    """Write the lock files, and print what changed in them."""
    steps = Steps()
    wanted = arguments.what or PINS
    if DEBIAN in wanted:
        with steps.step("Debian packages of the images"):
            changes = _lock_debian()
        steps.note("\n".join(f"  {change}" for change in changes) or "  nothing new")
    if PYTHON in wanted:
        with steps.step("Python packages"):
            lock_python(clone.root, keep=arguments.keep)
    if GO in wanted:
        with steps.step("Go modules of the toolchain") as progress:
            pins.lock(clone.cache, progress, keep=arguments.keep)
    if wanted != [DEBIAN]:
        steps.note("  'git diff' shows what changed")
    return 0


def _lock_debian() -> list[str]:
    mirror = open_mirror(cache_folder() / "packages")
    debian = resolve.indexes(mirror, resolve.gpgv(), datetime.now(UTC))
    ccm = resolve.newest_pins(debian, recipe.ROOTS, recipe.LEFT_OUT)
    tools = resolve.newest_pins(debian, toolbox.ROOTS, toolbox.LEFT_OUT)
    tests = resolve.newest_pins(debian, test_images.ROOTS, test_images.LEFT_OUT)
    found = {lockfile.PATH: ccm, toolbox.LOCK: tools, test_images.LOCK: tests}
    before = {path: _read(path) for path in found}
    if older := [pin for path, after in found.items() for pin in resolve.gone_back(before[path], after)]:
        names = ", ".join(f"{pin.name} {pin.version}" for pin in older)
        raise SignatureError(
            f"the mirror's packages are older than the pinned packages: {names}; nothing was changed. The "
            "mirror is out of date, or an attacker serves old packages. Use another mirror"
        )
    for path, after in found.items():
        lockfile.write(recipe.SUITE, after, path)
    return [line for path, after in found.items() for line in differences(before[path].pins, after)]


def _read(path: Path) -> Lock:
    try:
        return lockfile.read(path)
    except LockFileError:
        return Lock(recipe.SUITE, ())


def differences(before: Iterable[Pin], after: Iterable[Pin]) -> list[str]:
    """What changed, one line a package and platform."""
    old = {(pin.name, pin.architecture): pin.version for pin in before}
    new = {(pin.name, pin.architecture): pin.version for pin in after}
    return [
        f"{name} ({architecture}): {old.get((name, architecture), 'new')} → "
        f"{new.get((name, architecture), 'gone')}"
        for name, architecture in sorted(old.keys() | new.keys())
        if old.get((name, architecture)) != new.get((name, architecture))
    ]


def lock_python(root: Path, *, keep: bool) -> None:
    """Write the lock files of Python packages."""
    common = [find_uv_bin(), "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-header"]
    common += ["--no-annotate", *([] if keep else ["--upgrade"])]
    project, everything = str(root / "pyproject.toml"), str(root / "requirements.lock")
    groups = ["--all-extras", "--group", f"{project}:dev"]
    for member in (root / "pyproject.toml", *sorted(root.glob("packages/*/pyproject.toml"))):
        # ./dev installs it from the clone
        groups += ["--no-emit-package", tomllib.loads(member.read_text())["project"]["name"]]
    commands = [
        [*common, project, *groups, "--output-file", everything],
        # what the image installs: the same versions
        [*common, project, "--constraint", everything, "--output-file", str(root / "ccm/requirements.lock")],
        # the generator of the documentation has a separate environment
        [*common, str(root / "docs/requirements.in"), "--output-file", str(root / "docs/requirements.lock")],
    ]
    for command in commands:
        tools.run("locking Python packages", command, _SECONDS)
