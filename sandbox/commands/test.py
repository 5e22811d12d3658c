"""``./dev test``: every check and every test, the fast ones first; ``./dev test unit``: only those.

``./dev test --kubernetes VERSION`` runs those that run Kubernetes, with another version of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from release import commits, tested
from release.errors import ReleaseError
from sandbox import packages
from sandbox.console import Steps
from sandbox.environment import HOLLOW, MACHINES
from sandbox.errors import SandboxError
from sandbox.kinds import AUTO, decide, look
from sandbox.kubernetes import releases
from sandbox.prepare import announce, prepare
from sandbox.site import Clone

HELP = "every check and test; 'unit': the fast ones; 'lint': no test; anything more goes to pytest"
USAGE = """usage: ./dev test [unit | lint | --kubernetes VERSION] [pytest's arguments]

  ./dev test        the linters, then all tests: fast ones, slow ones, those with machines and a cluster
  ./dev test unit   the linters and the fast tests, which need neither root nor machines
  ./dev test lint   the linters alone
  ./dev test --kubernetes 1.34
                    the tests that run Kubernetes, with that version of it, and no others

Everything more goes to pytest: ./dev test unit -k NAME, ./dev test unit tests/unit/cloud.
One test alone, without the linters: .venv/bin/pytest tests/unit/cloud -n 0
What pytest takes: .venv/bin/pytest --help"""
LINTERS: Sequence[tuple[str, Sequence[str]]] = (
    ("ruff check", ("ruff", "check", "--quiet")),
    ("ruff format", ("ruff", "format", "--check", "--quiet")),
    ("import-linter", ("lint-imports",)),
    ("pyright", ("pyright",)),
)
UNIT = ("-m", "not slow and not machines and not cluster", "-n", "2", "-q")
LONGEST = ("--durations=15", "--durations-min=20")  # what to look at, should all of it take too long
SLOW = ("-m", "slow", "-n", "3", "-q", *LONGEST)
# Four modules at a time, as long as the host has enough for the machines of all (tests/host_share.py): most
# of the time one of them waits, and begins as soon as it fits. In the order of their names, by which those of
# whole environments, which take longest, come first.
MODULES = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder", "-q", *LONGEST)
REAL = {
    MACHINES: ("-m", "machines or cluster", *MODULES),
    HOLLOW: ("-m", "cluster and not machines", *MODULES),
}
OPTIONAL = (
    (packages.EMULATION, "Emulation of ARM", "the image for ARM"),
    (packages.BROWSER, "Browser", "the sandbox's console"),
)
"""What tests can go without: what the packages are for, the step's name, what is tested with them."""
KUBERNETES = "--kubernetes"
VARIABLE = "CCMFS_KUBERNETES"
"""By which tests hear of the version that they are to run."""
PREPARED = "CCMFS_PREPARED"
"""By which tests hear that what they need has been made, for which kind of servers; empty before."""


def run(clone: Clone, arguments: argparse.Namespace) -> int:
    """Run what was asked for; stops at the first layer that fails."""
    if {"-h", "--help"} & set(arguments.arguments):
        print(USAGE)
        return 0
    given = list(arguments.arguments)
    if version := take_version(given):
        return _run_with(clone, version, given)
    layer = "all" if not given or given[0].startswith("-") else given.pop(0)
    if layer not in {"all", "unit", "lint"}:
        raise SandboxError(f"{layer!r} is no layer; there are: all, unit, lint")
    steps = Steps(Console())
    _lint(clone, steps)
    if layer == "lint":
        return 0
    with tempfile.TemporaryDirectory() as folder:
        left = _Left(Path(folder), _committed(clone))
        code = _pytest(clone, [*UNIT, *given], left)
        if code or layer == "unit":
            return code
        choice = decide(AUTO, look(clone, needs=[packages.BUILD]))
        announce(choice, steps)
        prepare(clone, steps, choice)
        optional(steps)
        code = _pytest(clone, [*SLOW, *given], left, choice.kind) or _pytest(
            clone, [*REAL[choice.kind], *given], left, choice.kind
        )
        if not code and not given:
            _keep(clone, left, choice.kind, steps)
    return code


def take_version(given: list[str]) -> str:
    """Take ``--kubernetes VERSION`` out of the arguments; empty where it is not the first of them.

    Raises:
        KubernetesVersionError: There is no such version here, or none was given.
    """
    if not given or given[0].partition("=")[0] != KUBERNETES:
        return ""
    _, equals, value = given.pop(0).partition("=")
    if not equals:
        value = given.pop(0) if given else ""
    return releases.named(value, KUBERNETES)


def _run_with(clone: Clone, version: str, given: Sequence[str]) -> int:
    """Run the tests that run Kubernetes, with another version; the slow ones, then those on machines."""
    steps = Steps(Console())
    choice = replace(decide(AUTO, look(clone)), kubernetes=version)
    announce(choice, steps)
    prepare(clone, steps, choice)
    os.environ[VARIABLE] = version
    with tempfile.TemporaryDirectory() as folder:
        left = _Left(Path(folder), _committed(clone))
        for option, marked, *others in (SLOW, REAL[choice.kind]):
            code = _pytest(clone, [option, f"({marked}) and kubernetes", *others, *given], left, choice.kind)
            if code:
                return code
        if not given:
            _keep(clone, left, choice.kind, steps, version)
    return 0


@dataclass(frozen=True)
class _Left:
    """What a run leaves: pytest's files, one a layer, and the tree's name; empty if it is no commit's."""

    folder: Path
    tree: str

    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir())

    def next(self) -> Path:
        return self.folder / f"{len(self.files())}.xml"


def _keep(clone: Clone, left: _Left, servers: str, steps: Steps, version: str = "") -> None:
    """Keep what a run left, if what ran is what was committed."""
    if not left.tree or left.tree != _committed(clone):
        return
    try:
        record = tested.read_run(left.files(), left.tree, servers, kubernetes=version)
    except ReleaseError as error:
        raise SandboxError(f"all tests passed, but a release can't say with what: {error}") from error
    steps.note(f"✓ what the tests ran with is kept for a release: {tested.keep(record, clone.tested)}")


def _committed(clone: Clone) -> str:
    try:
        return "" if commits.changes(clone.root) else commits.checked_out(clone.root).tree
    except ReleaseError:  # the source as an archive, or no git
        return ""


def optional(
    steps: Steps,
    found: Callable[[str], bool] = packages.on_this_host,
    permitted: Callable[[], bool] = packages.installable,
    distribution: Callable[[], str] = packages.distribution,
) -> None:
    """Install what some tests want; where it can't be had, those are skipped.

    Args:
        steps: Where to tell about it.
        found: Whether a command is there.
        permitted: Whether we may install packages.
        distribution: The ID in ``/etc/os-release``; of this host.

    Raises:
        StepFailed: Apt-get failed.
    """
    for needs, name, judged in OPTIONAL:
        missing = packages.missing({needs}, found)
        if packages.BROWSERS[0] in {package.proof for package in missing} and distribution() == "ubuntu":
            steps.note(f"• no test of {judged}: Ubuntu has no browser as a package; for those: google-chrome")
        elif missing and not permitted():
            steps.note(f"• no test of {judged}; for those: {packages.install_command(missing)}")
        else:
            with steps.step(name) as progress:
                packages.ensure(missing, progress)


def _lint(clone: Clone, steps: Steps) -> None:
    for what, command in LINTERS:
        with steps.step(what):
            program = str(clone.root / ".venv/bin" / command[0])
            done = subprocess.run(
                [program, *command[1:]],
                cwd=clone.root,
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
            if done.returncode:
                raise SandboxError(f"{what} found:\n{done.stdout}{done.stderr}")


def _pytest(clone: Clone, arguments: Sequence[str], left: _Left, prepared: str = "") -> int:
    command = [sys.executable, "-m", "pytest", f"--junitxml={left.next()}", *arguments]
    told = {**os.environ, PREPARED: prepared}
    return subprocess.run(command, cwd=clone.root, check=False, env=told).returncode
