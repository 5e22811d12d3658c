"""``./dev logs``: follow the CCM; ``--sandbox``: the sandbox process; ``--events``: the cluster's Events."""

import argparse
import os
from collections.abc import Mapping
from typing import Any

from sandbox import cluster, daemon, takeover
from sandbox.built_kubernetes import built_toolchain
from sandbox.environment import HOLLOW
from sandbox.errors import SandboxError
from sandbox.hollow import ccm
from sandbox.site import Site

HELP = "follow the log of the CCM or the Events of the cluster"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which log, and whether to follow it."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--sandbox", action="store_true", help="show the log of the sandbox")
    source.add_argument("--events", action="store_true", help="show the Events of all namespaces")
    parser.add_argument("--no-follow", action="store_true", help="print the current log or Events, and exit")


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Become tail or kubectl."""
    follow = not arguments.no_follow
    if arguments.events:
        watch = ["--watch"] if follow else []
        command = cluster.kubectl(site, built_toolchain(site), ["events", "--all-namespaces", *watch])
        os.execv(command[0], command)  # noqa: S606
    running = daemon.find(site)
    if arguments.sandbox or (running and running.backend == HOLLOW):
        file = site.log if arguments.sandbox else ccm.log_file(site)
        if not file.exists():
            raise SandboxError(f"{file.name} doesn't exist yet; run './dev up' first")
        os.chdir(file.parent)  # './dev down' reports processes with the folder's name in the command line
        os.execvp("tail", ["tail", "-n", "200", *(["-F"] if follow else []), file.name])  # noqa: S606
    built = built_toolchain(site)
    pods = cluster.ccm_pods(site, built)
    if not pods:
        raise SandboxError(takeover.why_no_pod(site) or why_no_pod(cluster.deployment(site, built)))
    command = cluster.kubectl(
        site,
        built,
        [
            "--namespace=kube-system",
            "logs",
            f"deployment/{cluster.CCM}",
            "--tail=200",
            f"--follow={str(follow).lower()}",
            # otherwise kubectl may choose a Pod that doesn't lead, and one that doesn't run ends the log
            *(["--all-pods", "--ignore-errors"] if len(pods) > 1 else []),
        ],
    )
    os.execv(command[0], command)  # noqa: S606


def why_no_pod(deployment: Mapping[str, Any]) -> str:
    """Why no Pod of the CCM is there, and what to do about it."""
    name = f"deployment/{cluster.CCM}"
    if deployment.get("spec", {}).get("replicas") == 0:
        return (
            f"no Pod of the CCM runs, because {name} has 0 replicas. To start a Pod, run: "
            f"./dev kubectl -n kube-system scale {name} --replicas=1"
        )
    return f"the CCM has no Pod: run './dev kubectl -n kube-system describe {name}' to see why"
