"""``./dev test``: the linters and the tests of each layer, the fast ones first.

``./dev test unit``, ``./dev test all``, ``./dev test PATH`` and ``./dev test --kubernetes VERSION`` run fewer
or more of them; ``./dev test --durations`` shows where the time of the last run went.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from image.errors import ToolError
from release import commits, tested
from release.errors import ReleaseError
from sandbox import packages
from sandbox.backend_choice import AUTO, Choice, decide, look
from sandbox.console import Steps
from sandbox.errors import MissingRequirement, SandboxError
from sandbox.kubernetes import releases
from sandbox.prepare import announce, prepare
from sandbox.site import Clone
from sandbox.testing import changes, durations, inotify, prose
from sandbox.testing.layers import COMMIT, NIGHTLY, PROFILE, UNIT, Layer, joined, layers
from sandbox.testing.selection import files_for

HELP = "run all linters and tests, or only the tests that you select"
WRAPS = WITHOUT_ADDRESSES = True
USAGE = """usage: ./dev test [unit | lint | all | PATH ... | --kubernetes VERSION] [pytest's arguments]
       ./dev test [unit] --every
       ./dev test --durations

  ./dev test        run the linters, and the default tests whose files changed since they last passed; of
                    the slow tests of other distributions, run only the smoke tests
  ./dev test --every
                    run all default tests
  ./dev test unit   run the linters, and the tests that need neither root nor machines
  ./dev test lint   run only the linters
  ./dev test all    run all tests, including other versions of Kubernetes, bare machines, a browser, emulated
                    ARM, all faults and all guides
  ./dev test PATH   run the tests in a file or folder, or the tests of a source folder: ./dev test ccm/kube
  ./dev test --kubernetes 1.36
                    run only the tests that need Kubernetes, and use this Kubernetes version
  ./dev test --durations
                    show the durations of the last run by layer, module, test and fixture

All other arguments are passed to pytest: ./dev test unit -k NAME.
To run tests without preparation, use pytest: .venv/bin/pytest tests/unit/cloud -n 0"""
LINTERS: Sequence[tuple[str, Sequence[str]]] = (
    ("ruff check", ("ruff", "check", "--quiet")),
    ("ruff format", ("ruff", "format", "--check", "--quiet")),
    ("import-linter", ("lint-imports",)),
    ("pyrefly", ("pyrefly", "check", "--output-format", "min-text")),
)
OPTIONAL = (
    (packages.EMULATION, "Emulation of ARM", "the image for ARM"),
    (packages.BROWSER, "Browser", "the sandbox's console"),
)
"""Each entry describes optional packages: their purpose, the name of their setup step, and the subject of the
tests that need these packages."""
NAMES = ("lint", "unit", "all")
KUBERNETES = "--kubernetes"
DURATIONS = "--durations"
EVERY = "--every"
VARIABLE = "CCMFS_KUBERNETES"
"""The environment variable with the Kubernetes version for the tests."""
PREPARED = "CCMFS_PREPARED"
"""An environment variable for tests: the kind of servers, ``machines`` or ``hollow``, for which ``./dev
test`` has prepared the host. If the host isn't prepared, the value is empty."""
_NO_TESTS = 5
"""pytest's exit code if no test was selected."""
_ENDED = (0, 1, _NO_TESTS)
"""pytest's exit codes after a complete run: all tests passed, some tests failed, or no test was selected."""


def run(clone: Clone, arguments: argparse.Namespace) -> int:
    """Run what was asked for; stops at the first layer that fails, except in ``./dev test all``."""
    given = list(arguments.arguments)
    if {"-h", "--help"} & set(given):
        print(USAGE)
        return 0
    if given == [DURATIONS]:
        return _show_durations(clone)
    steps = Steps()
    with tempfile.TemporaryDirectory() as folder, Run.recorded(clone, Path(folder)) as tests:
        if version := take_version(given):
            return _run_with(tests, steps, version, given)
        name = given.pop(0) if given and given[0] in NAMES else ""
        if every := given[:1] == [EVERY]:
            given.pop(0)
        if not name and given and not given[0].startswith("-"):
            return _run_paths(tests, steps, given)
        return _run_named(tests, steps, name, given, every=every)


def _run_named(tests: Run, steps: Steps, name: str, given: Sequence[str], *, every: bool) -> int:
    """Run the linters, then the layers that ``name`` selects; without a name, the default layers."""
    _lint(tests.clone, steps)
    if name == "lint":
        return 0
    tests.nightly = name == "all"
    code = run_changed(tests, steps, UNIT, given, every=every)
    if name == "unit" or (code and not tests.nightly):
        return code
    choice = _prepare(tests, steps)
    for layer in (joined if tests.nightly else layers)(choice.kind)[1:]:
        # A nightly run continues: its first failure must not hide the others.
        code = run_changed(tests, steps, layer, given, every=every) or code
        if code and not tests.nightly:
            return code
    if code:
        return code
    if tests.nightly and not given:
        _keep(tests, choice.kind, steps)
    return 0


def run_changed(tests: Run, steps: Steps, layer: Layer, given: Sequence[str], *, every: bool) -> int:
    """Run a layer's tests whose files changed since they passed; returns pytest's exit code.

    A slow layer runs only the smoke tests of a file if nothing but other distributions changed. In a nightly
    run, all tests run. With arguments in ``given``, all test files get them.
    """
    if given:
        return tests.layer(layer, given)
    stamps = changes.stamps(tests.clone.root)
    notes = tests.clone.cache / "passed", f"{layer.name}-{tests.prepared}"
    passed = set() if every or tests.nightly else changes.passed(*notes)
    selected = changes.select(stamps, passed, layer)
    if passed:
        steps.note(
            f"• {layer.name}: test files to run: {len(selected)}. The other files passed, and their "
            "distribution hasn't changed since then. To run all tests: ./dev test --every"
        )
    names = [name for tests in selected.values() for name in tests.names]
    if stamps and not names:
        return 0
    code = tests.layer(layer, names)
    if code in _ENDED and not tests.nightly:
        changes.keep(*notes, selected, tests.reports()[-1])
    return 0 if stamps and code == _NO_TESTS else code


@dataclass
class Run:
    """One run of tests."""

    clone: Clone  # this one
    folder: Path  # for pytest's reports, one a layer
    tree: str  # the name of the tree; empty if it isn't a commit's
    nightly: bool = False  # whether the tests with the mark ``nightly`` run
    prepared: str = ""  # the kind of servers for which everything was made; empty before
    finished: list[durations.LayerSpan] = field(default_factory=list)  # the layers that have run

    @classmethod
    @contextmanager
    def recorded(cls, clone: Clone, folder: Path) -> Iterator[Run]:
        """A run whose durations are kept, and printed at the end if it had more than one layer."""
        made = cls(clone, folder, _committed(clone))
        yield made
        if made.finished:
            durations.keep_modules(clone.durations)
        if len(made.finished) > 1:
            _show_durations(clone)

    def layer(self, layer: Layer, given: Sequence[str], also: str = "") -> int:
        """Run a layer's tests; returns pytest's exit code."""
        if not self.finished:
            durations.begin(self.clone.durations)
        with inotify.raised(self.clone.cache / "inotify.lock"):
            begun, busy = time.monotonic(), durations.busy_seconds()
            code = self._pytest(layer, [*layer.command(nightly=self.nightly, also=also), *given])
            wall, busy = time.monotonic() - begun, durations.busy_seconds() - busy
        self.finished.append(durations.LayerSpan(layer.name, wall, busy, os.cpu_count() or 1))
        durations.write_layers(self.clone.durations, self.finished)
        return code

    def reports(self) -> list[Path]:
        """Pytest's files, in the order of the layers."""
        return sorted(self.folder.iterdir())

    def has_tests(self, layer: Layer, files: Sequence[str]) -> bool:
        """Whether a layer has tests in some files."""
        _, _, marks, *_ = layer.command(nightly=self.nightly)
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marks, *files]
        done = subprocess.run(command, cwd=self.clone.root, check=False, capture_output=True, timeout=600)
        return done.returncode != _NO_TESTS

    def _pytest(self, layer: Layer, arguments: Sequence[str]) -> int:
        report = self.folder / f"{len(self.reports())}.xml"
        command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *arguments]
        environment = {
            **os.environ,
            PREPARED: self.prepared if layer.prepared else "",
            PROFILE: NIGHTLY if self.nightly else COMMIT,
            durations.FOLDER: str(self.clone.durations),
            durations.LAYER: layer.name,
        }
        return subprocess.run(command, cwd=self.clone.root, check=False, env=environment).returncode


def _prepare(tests: Run, steps: Steps) -> Choice:
    choice = decide(AUTO, look(tests.clone, needs=[packages.BUILD]))
    announce(choice, steps)
    prepare(tests.clone, steps, choice)
    if tests.nightly:
        optional(steps)
    tests.prepared = choice.kind
    return choice


def _run_paths(tests: Run, steps: Steps, given: Sequence[str]) -> int:
    """Run what belongs to some paths, without the linters; makes ready only what those tests need."""
    options = next((place for place, word in enumerate(given) if word.startswith("-")), len(given))
    paths, more = given[:options], given[options:]
    files = files_for(tests.clone.root, paths)
    tests.nightly = files == list(paths)  # a test that is named runs, whatever its mark
    ran = False
    if tests.has_tests(UNIT, files):
        ran = True
        if code := tests.layer(UNIT, [*more, *files]):
            return code
    kind = decide(AUTO, look(tests.clone)).kind
    wanted = [layer for layer in layers(kind)[1:] if tests.has_tests(layer, files)]
    if wanted:
        _prepare(tests, steps)
    for layer in wanted:
        if code := tests.layer(layer, [*more, *files]):
            return code
    if not (ran or wanted):
        raise SandboxError(f"{', '.join(paths)}: the tests in this path run only with './dev test all'")
    return 0


def _show_durations(clone: Clone) -> int:
    finished = durations.read_layers(clone.durations)
    if not finished:
        raise SandboxError("this clone's cache has no test durations yet; run ./dev test unit first")
    print(durations.tables(finished, list(durations.read_spans(clone.durations))))
    return 0


def take_version(given: list[str]) -> str:
    """Take ``--kubernetes VERSION`` out of the arguments; empty where it is not the first of them."""
    if not given or given[0].partition("=")[0] != KUBERNETES:
        return ""
    _, equals, value = given.pop(0).partition("=")
    if not equals:
        value = given.pop(0) if given else ""
    return releases.named(value, KUBERNETES)


def _run_with(tests: Run, steps: Steps, version: str, given: Sequence[str]) -> int:
    """Run the tests that run Kubernetes, with another version; those of processes, then those on machines."""
    choice = replace(decide(AUTO, look(tests.clone)), kubernetes=version)
    announce(choice, steps)
    prepare(tests.clone, steps, choice)
    os.environ[VARIABLE] = version
    tests.nightly, tests.prepared = True, choice.kind
    for layer in layers(choice.kind)[1:]:
        if code := tests.layer(layer, given, also="kubernetes"):
            return code
    if not given:
        _keep(tests, choice.kind, steps, version)
    return 0


def _keep(tests: Run, servers: str, steps: Steps, version: str = "") -> None:
    """Record which versions a run tested, if it tested the checked-out commit without changes."""
    if not tests.tree or tests.tree != _committed(tests.clone):
        return
    try:
        record = tested.read_run(tests.reports(), tests.tree, servers, kubernetes=version)
    except ReleaseError as error:
        raise SandboxError(
            f"all tests passed, but the tested versions can't be recorded for a release: {error}"
        ) from error
    steps.note(
        "✓ recorded the versions that this test run tested, for the release notes: "
        f"{tested.keep(record, tests.clone.tested)}"
    )


def _committed(clone: Clone) -> str:
    try:
        return "" if commits.changes(clone.root) else commits.checked_out(clone.root).tree
    except (ReleaseError, ToolError):  # the source as an archive, or no git
        return ""


def optional(
    steps: Steps,
    found: Callable[[str], bool] = packages.on_this_host,
    permitted: Callable[[], bool] = packages.installable,
    distribution: Callable[[], str] = packages.distribution,
) -> None:
    """Install what some tests want; where it can't be had, those are skipped."""
    for needs, name, judged in OPTIONAL:
        missing = packages.missing({needs}, found)
        if packages.BROWSERS[0] in {package.proof for package in missing} and distribution() == "ubuntu":
            steps.note(
                f"• skipped the tests of {judged}, because Ubuntu provides Chromium only as a snap. "
                "Install google-chrome to run the tests"
            )
        elif missing and not permitted():
            steps.note(
                f"• skipped the tests of {judged}. To run the tests, install packages: "
                f"{packages.install_command(missing)}"
            )
        else:
            with steps.step(name) as progress:
                packages.ensure(missing, progress)


def _lint(clone: Clone, steps: Steps) -> None:
    """Run all linters at the same time, and show each as it ends, in their order."""
    with ThreadPoolExecutor(len(LINTERS) + 1) as pool:
        running = [(what, pool.submit(_linted, clone, command)) for what, command in LINTERS]
        running.append(("vale", pool.submit(_prose, clone, steps)))
        for what, done in running:
            with steps.step(what):
                if found := done.result():
                    raise SandboxError(f"{what} found:\n{found}")


def _prose(clone: Clone, steps: Steps) -> str:
    try:
        return prose.findings(clone.root, clone.cache, steps.note)
    except MissingRequirement as error:
        steps.note(f"• Vale, which checks the language of pages and messages, didn't run: {error}")
        return ""


def _linted(clone: Clone, command: Sequence[str]) -> str:
    program = str(clone.root / ".venv/bin" / command[0])
    done = subprocess.run(
        [program, *command[1:]],
        cwd=clone.root,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return done.stdout + done.stderr if done.returncode else ""
