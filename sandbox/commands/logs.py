"""``./dev logs``: follow the CCM; ``--sandbox``: follow the sandbox process."""

from __future__ import annotations

import argparse
import os

from sandbox import cluster, daemon
from sandbox.environment import HOLLOW
from sandbox.errors import NotRunning
from sandbox.hollow import ccm
from sandbox.prepare import built_toolchain
from sandbox.site import Site

HELP = "follow what the CCM logs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whose log, and whether to follow it."""
    parser.add_argument("--sandbox", action="store_true", help="the sandbox process instead of the CCM")
    parser.add_argument("--no-follow", action="store_true", help="print what is there and end")


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Become tail or kubectl."""
    follow = not arguments.no_follow
    running = daemon.find(site)
    if arguments.sandbox or (running and running.backend == HOLLOW):
        file = site.log if arguments.sandbox else ccm.log_file(site)
        if not file.exists():
            raise NotRunning(f"there is no {file.name} yet; start with './dev up'")
        os.execvp("tail", ["tail", "-n", "200", *(["-F"] if follow else []), str(file)])  # noqa: S606
    command = cluster.kubectl(
        site,
        built_toolchain(site),
        [
            "--namespace=kube-system",
            "logs",
            "deployment/ccm-from-scratch",
            "--tail=200",
            f"--follow={str(follow).lower()}",
        ],
    )
    os.execv(command[0], command)  # noqa: S606
