"""``./dev up``: the whole environment, from nothing to nodes that our CCM has initialised."""

from __future__ import annotations

import argparse

from rich.console import Console

from sandbox import cluster, daemon, pulumi
from sandbox.console import Steps
from sandbox.environment import STACK
from sandbox.overview import overview
from sandbox.prepare import prepare
from sandbox.site import Site

HELP = "set up what is missing, then bring the whole environment up with 'pulumi up'"
READY_SECONDS = 180


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How the cloud behaves, and how many workers."""
    parser.add_argument(
        "--actions", choices=["instant", "realistic"], default="instant", help="how long actions take"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="sets the stack's workerCount before")


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Bring the environment up; whatever is there already stays."""
    steps = Steps(Console())
    prepared = prepare(site, steps)
    with steps.step("Sandbox cloud") as progress:
        daemon.start(site, "machines", arguments.actions, progress)
    variables = pulumi.environment(site, prepared.toolchain)
    pulumi.select_stack(site, variables)
    if arguments.workers is not None:
        pulumi.run(
            site, variables, ["config", "set", "workerCount", str(arguments.workers)], "See the message above"
        )
    pulumi.run(
        site,
        variables,
        ["up", "--stack", STACK, "--yes", "--skip-preview"],
        "Nothing is lost: './dev up' goes on from there, './dev down' removes everything",
    )
    with steps.step("Nodes are Ready and initialised by the CCM") as progress:
        cluster.await_nodes(site, prepared.toolchain, READY_SECONDS, progress)
    steps.note("\n" + overview(site, prepared.toolchain))
    return 0
