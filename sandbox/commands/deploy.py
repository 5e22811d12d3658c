"""``./dev deploy``: rebuild the CCM's image and roll it out."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from sandbox import cluster, daemon, pulumi, stack_settings
from sandbox.console import Steps
from sandbox.environment import HOLLOW, MACHINES, STACKS
from sandbox.errors import SandboxError
from sandbox.hollow import ccm
from sandbox.prepare import built_toolchain
from sandbox.site import Site

HELP = "rebuild the CCM from this tree and roll it out (a 'pulumi up' that changes only the image)"


def run(site: Site, _arguments: argparse.Namespace) -> int:
    """Roll out what the tree holds now."""
    steps = Steps(Console())
    built = built_toolchain(site)
    hollow = daemon.require(site).backend == HOLLOW
    check_source(site.root)
    if hollow:
        with steps.step("The CCM restarted from this tree"):
            ccm.stop(site)
            ccm.start(site)
        steps.note("✓ './dev logs' follows it")
        return 0
    before = cluster.deployment(site, built)["metadata"]["generation"]
    up = ["up", "--stack", STACKS[MACHINES], "--yes", "--skip-preview"]
    hint = "Correct what it names and run './dev deploy' again; './dev logs' follows the CCM that runs"
    variables = pulumi.environment(site, built)
    stack_settings.ensure(site, STACKS[MACHINES])
    pulumi.clear_locks(site, variables, STACKS[MACHINES], steps)
    pulumi.run(site, variables, up, hint)
    if cluster.deployment(site, built)["metadata"]["generation"] == before:
        steps.note("✓ nothing to roll out: the CCM that runs was made from what this tree holds")
    else:
        steps.note("✓ rolled out; './dev logs' follows it")
    return 0


def check_source(root: Path) -> None:
    """Make sure that Python can read the CCM, before what runs is touched.

    Args:
        root: The clone.

    Raises:
        SandboxError: Names the file, the line and what is wrong there.
    """
    for path in sorted((root / "ccm").rglob("*.py")):
        try:
            compile(path.read_bytes(), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            what = error.msg if isinstance(error, SyntaxError) else str(error)
            raise SandboxError(
                f"{path.relative_to(root)}{line}: {what}. Nothing was changed, the CCM that runs goes on; "
                "correct it and run './dev deploy' again"
            ) from None
