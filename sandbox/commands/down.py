"""``./dev down``: everything gone, and a report that proves it."""

from __future__ import annotations

import argparse
import shutil

from rich.console import Console

from sandbox import cluster, daemon, leftovers, pulumi, stack_settings
from sandbox.console import Steps
from sandbox.environment import HOLLOW, STACKS, kinds_there
from sandbox.errors import SandboxError
from sandbox.hollow import ccm
from sandbox.kubernetes import toolchain
from sandbox.site import Site, release_site

HELP = "remove everything with 'pulumi destroy', end the sandbox, and show that nothing is left"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whether to ask anybody first."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="ask neither Pulumi nor the cloud: remove what carries this clone's id",
    )


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Remove everything of this clone's environment."""
    steps = Steps(Console())
    variables = pulumi.environment(site, None)
    pulumi.refuse_to_lose(site, variables)
    if not arguments.force:
        for kind in kinds_there(site):
            _destroy(site, kind, steps)
    with steps.step("Sandbox ended"):
        ccm.stop(site)
        daemon.kill(site) if arguments.force else daemon.stop(site)
    with steps.step("Machines, networks, mounts and cgroups removed"):
        leftovers.remove(site)
    with steps.step("Files removed"):
        pulumi.forget_selection(site, variables)
        _remove_files(site)
    found = leftovers.find(site)
    release_site(site)
    if found:
        raise SandboxError("something is left: " + "; ".join(found))
    steps.note(f"✓ nothing is left of site {site.id}: {leftovers.LOOKED_AT}")
    return 0


def _destroy(site: Site, kind: str, steps: Steps) -> None:
    with steps.step("Sandbox cloud") as progress:
        daemon.start(site, kind, "instant", progress)
    built = toolchain.find_control_plane(site.cache)
    if kind == HOLLOW and built and ccm.find(site):
        with steps.step("Services of type LoadBalancer deleted"):
            cluster.delete_load_balancers(site, built)
    stack_settings.ensure(site, STACKS[kind])
    pulumi.run(
        site,
        pulumi.environment(site, built),
        ["destroy", "--stack", STACKS[kind], "--yes", "--skip-preview"],
        "Try again, or './dev down --force', which asks neither Pulumi nor the cloud",
    )
    with steps.step("The cloud's API lists nothing"):
        remaining = leftovers.in_cloud(site)
        if remaining:
            raise SandboxError(
                f"the cloud still has: {', '.join(remaining)}. './dev down --force' removes it all"
            )


def _remove_files(site: Site) -> None:
    stack_settings.remove(site)  # before the passphrase, without which the salt in them is a trap
    for path in (site.kubeconfig, site.ssh_key, site.ssh_key.with_name(site.ssh_key.name + ".pub")):
        path.unlink(missing_ok=True)
    for path in site.state.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if not site.state.is_mount():  # somebody's volume stays, empty
        site.state.rmdir()
