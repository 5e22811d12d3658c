"""``./dev deploy``: rebuild the CCM's image and roll it out; ``--watch``: after every change of the tree."""

import argparse
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from sandbox import cluster, daemon, environment_lock, pulumi, stack_settings, takeover
from sandbox.built_kubernetes import built_toolchain
from sandbox.console import Steps
from sandbox.environment import HOLLOW, MACHINES, STACKS
from sandbox.errors import EnvironmentBusy, SandboxError
from sandbox.hollow import ccm
from sandbox.site import Site

HELP = "build the CCM and deploy it with 'pulumi up'"
WATCHED = ("ccm", "manifests")
"""Folders whose changes trigger a rollout."""
LOOK_SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Once or again and again."""
    parser.add_argument(
        "--watch", action="store_true", help="deploy the CCM again after every change, until you press Ctrl-C"
    )


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Roll out what the tree holds now."""
    steps = Steps()
    if not arguments.watch:
        return roll_out(site, steps)
    for _ in changes(lambda: snapshot(rolled_out(site.root)), time.sleep):
        try:
            in_turn(lambda: roll_out(site, steps), time.sleep, steps.note)
        except SandboxError as error:
            steps.note(f"✗ {error}")
        steps.note(f"• waiting for a change in {' or '.join(WATCHED)}; press Ctrl-C to stop")
    return 0


def rolled_out(root: Path) -> Iterable[Path]:
    """The files of the clone that are rolled out."""
    return (path for folder in WATCHED for path in (root / folder).rglob("*"))


def in_turn(change: Callable[[], object], sleep: Callable[[float], None], say: Callable[[str], None]) -> None:
    """Change the environment once no other command changes it."""
    waits = False
    while True:
        try:
            change()
        except EnvironmentBusy as error:
            if not waits:
                say(f"• waiting until {error.holder} has finished changing the environment")
            waits = True
            sleep(LOOK_SECONDS)
        else:
            return


def changes(look: Callable[[], object], sleep: Callable[[float], None]) -> Iterator[None]:
    """Yields at once, and then after each change; a change while the caller works counts, too."""
    while True:
        seen = look()
        yield
        while look() == seen:
            sleep(LOOK_SECONDS)


def snapshot(files: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Time and size of each file, without files that disappear meanwhile.

    Compiled files are left out: when a program starts, Python first writes them under temporary names.
    """
    found = {}
    for path in files:
        with suppress(FileNotFoundError):
            facts = path.stat()
            if path.parent.name != "__pycache__" and stat.S_ISREG(facts.st_mode):
                found[path] = facts.st_mtime_ns, facts.st_size
    return found


def roll_out(site: Site, steps: Steps) -> int:
    """Roll out the source tree once; raises EnvironmentBusy. If a step fails, the running CCM stays."""
    with environment_lock.changing(site, "deploy"):
        built = built_toolchain(site)
        hollow = daemon.require(site).backend == HOLLOW
        check_source(site.root, (site.root / "ccm").rglob("*.py"))
        takeover.refuse(site, "you roll out another CCM")
        if hollow:
            with steps.step("The CCM runs the code of this source tree"):
                ccm.stop(site)
                ccm.start(site)
            steps.note("✓ './dev logs' follows the CCM's log")
            return 0
        takeover.heal(site, built, steps.note)
        before = cluster.deployment(site, built)["metadata"]["generation"]
        up = ["up", "--stack", STACKS[MACHINES], "--yes", "--skip-preview"]
        hint = "Correct the error and run './dev deploy' again. './dev logs' prints the CCM's log"
        variables = pulumi.environment(site, built)
        stack_settings.ensure(site, STACKS[MACHINES])
        pulumi.heal(site, variables, STACKS[MACHINES], steps)
        pulumi.run(site, variables, up, hint)
        if cluster.deployment(site, built)["metadata"]["generation"] == before:
            steps.note("✓ nothing to roll out: the CCM already runs the code of this source tree")
        else:
            steps.note("✓ rolled out the CCM; './dev logs' follows its log")
        return 0


def check_source(root: Path, files: Iterable[Path]) -> None:
    """Make sure that Python can compile the sources before a running CCM is stopped."""
    for path in sorted(files):
        try:
            compile(path.read_bytes(), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            what = error.msg if isinstance(error, SyntaxError) else str(error)
            raise SandboxError(
                f"{os.path.relpath(path, root)}{line}: {what}. The running CCM is unchanged. Correct the "
                "error and try again"
            ) from None
