"""``./dev env``: exports for any other client."""

import argparse

from sandbox import daemon, stack_settings
from sandbox.built_kubernetes import find_toolchain
from sandbox.environment import MACHINES, exports, shell_lines
from sandbox.site import Site

HELP = 'print the environment variables that other programs need: eval "$(./dev env)"'


def run(site: Site, _arguments: argparse.Namespace) -> int:
    """Print the exports, and make the settings files that ``pulumi`` reads."""
    running = daemon.require(
        site
    )  # a shell evaluates what is printed: nothing, while there is nothing to reach
    for stack in stack_settings.STACKS.values():
        stack_settings.ensure(site, stack)
    built = find_toolchain(site)
    lines = shell_lines(exports(site, built.bin if built else None))
    if running.backend == MACHINES:  # elsewhere no node pulls anything
        lines.append(f"export SANDBOX_REGISTRY={site.address.registry}")
    print("\n".join(lines))
    return 0
