"""``./dev plan``: what the CCM would do now, in its own settings."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from sandbox import cluster, daemon
from sandbox.built_kubernetes import built_toolchain
from sandbox.environment import HOLLOW, exports, merged
from sandbox.hollow import ccm
from sandbox.site import Clone, Site

HELP = "show the changes that the CCM would make now"
WRAPS = True


def check(_clone: Clone, arguments: argparse.Namespace) -> None:
    """Become ``python -m ccm plan`` where only its help is wanted: that needs no environment."""
    if {"-h", "--help"} & set(arguments.arguments):
        os.execv(sys.executable, [sys.executable, "-m", "ccm", "plan", "--help"])  # noqa: S606 - no shell


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Become ``python -m ccm plan``."""
    hollow = daemon.require(site).backend == HOLLOW
    cluster.kubectl(site, built_toolchain(site), ())  # fails without a cluster
    command, variables = _in_process(site) if hollow else _in_pod(site, os.environ)
    words = [*arguments.arguments, *command]
    os.execve(sys.executable, [sys.executable, "-m", "ccm", "plan", *words], variables)  # noqa: S606 - no shell


def _in_process(site: Site) -> tuple[Sequence[str], Mapping[str, str]]:
    """Settings of the CCM that is a process of this machine."""
    command = ccm.command(site.kubeconfig)
    return command[command.index("ccm") + 1 :], ccm.variables(site)


def _in_pod(site: Site, environment: Mapping[str, str]) -> tuple[Sequence[str], Mapping[str, str]]:
    """Settings of the CCM in the cluster; how to reach cloud and cluster from here.

    Settings of another CCM in the shell's environment must not override the Deployment's.
    """
    variables = merged(ccm.kept(environment), exports(site, None))
    return [f"--settings-from=deployment/kube-system/{cluster.CCM}"], variables
