"""``./dev kubectl …``: kubectl with this environment's kubeconfig."""

import argparse
import os

from sandbox import cluster
from sandbox.built_kubernetes import built_toolchain
from sandbox.site import Site

HELP = "run kubectl with the kubeconfig of this environment"
WRAPS = True


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Become kubectl."""
    command = cluster.kubectl(site, built_toolchain(site), arguments.arguments)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted
