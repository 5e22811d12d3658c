"""``./dev status``: what runs."""

import argparse

from sandbox import daemon
from sandbox.built_kubernetes import built_toolchain
from sandbox.console import Steps
from sandbox.overview import overview
from sandbox.site import Site

HELP = "show nodes and load balancers"


def run(site: Site, _arguments: argparse.Namespace) -> int:
    """Print the overview."""
    daemon.require(site)
    print(overview(site, built_toolchain(site), Steps().width))
    return 0
