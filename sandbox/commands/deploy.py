"""``./dev deploy``: rebuild the CCM's image and roll it out."""

from __future__ import annotations

import argparse

from rich.console import Console

from sandbox import cluster, daemon, pulumi, stack_settings
from sandbox.console import Steps
from sandbox.environment import HOLLOW, MACHINES, STACKS
from sandbox.hollow import ccm
from sandbox.prepare import built_toolchain
from sandbox.site import Site

HELP = "rebuild the CCM from this tree and roll it out (a 'pulumi up' that changes only the image)"


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(site: Site, _arguments: argparse.Namespace) -> int:
    """Roll out what the tree holds now."""
    steps = Steps(Console())
    built = built_toolchain(site)
    if daemon.require(site).backend == HOLLOW:
        with steps.step("The CCM restarted from this tree"):
            ccm.stop(site)
            ccm.start(site)
    else:
        cluster.get(site, built, "nodes")
        stack_settings.ensure(site, STACKS[MACHINES])
        up = ["up", "--stack", STACKS[MACHINES], "--yes", "--skip-preview"]
        pulumi.run(site, pulumi.environment(site, built), up, "Follow './dev logs'")
    steps.note("✓ rolled out; './dev logs' follows it")
    return 0
