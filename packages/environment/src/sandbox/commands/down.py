"""``./dev down``: everything gone, and a report that proves it."""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence

from sandbox import cluster, conformance_lock, console, daemon, leftovers, pulumi, stack_settings, takeover
from sandbox.built_kubernetes import find_toolchain
from sandbox.console import Steps
from sandbox.environment import HOLLOW, MACHINES, STACKS, kinds_there
from sandbox.errors import MissingRequirement, SandboxError
from sandbox.hollow import ccm
from sandbox.leftovers import CloudObject
from sandbox.site import Clone, Site, release_site

HELP = "delete the environment with 'pulumi destroy' and stop the sandbox"
CHANGES = CLAIMS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whether to ask first."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="delete all resources of this clone on this host, but don't run Pulumi or call the API",
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="don't ask for confirmation before deleting objects that 'pulumi destroy' leaves in the cloud",
    )


def check(clone: Clone, arguments: argparse.Namespace) -> None:
    """Refuse to delete an environment that another command uses; ``--force`` skips this check."""
    if os.geteuid() != 0 and MACHINES in kinds_there(clone):
        raise MissingRequirement("only root can remove machines: run sudo ./dev down")
    if not arguments.force:
        takeover.refuse(clone, "you delete the environment")
        conformance_lock.refuse(clone, "you delete the environment")


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Remove everything of this clone's environment."""
    steps = Steps()
    variables = pulumi.environment(site, None)
    pulumi.refuse_to_lose(site)
    if not arguments.force:
        for kind in kinds_there(site):
            _destroy(site, kind, steps, ask=not arguments.yes)
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
    steps.note(f"✓ nothing is left of site {site.id}; checked: {leftovers.LOOKED_AT}")
    return 0


def _destroy(site: Site, kind: str, steps: Steps, *, ask: bool) -> None:
    with steps.step("Sandbox cloud") as progress:
        daemon.start(site, kind, "instant", progress)
    not_ours = [item for item in leftovers.in_cloud(site) if not item.ours]
    agree_to_lose(not_ours, steps, question=console.question if ask and sys.stdin.isatty() else None)
    built = find_toolchain(site)
    if kind == HOLLOW and built and ccm.find(site):
        with steps.step("Services of type LoadBalancer deleted"):
            cluster.delete_load_balancers(site, built)
    variables = pulumi.environment(site, built)
    stack_settings.ensure(site, STACKS[kind])
    pulumi.heal(site, variables, STACKS[kind], steps)
    # What is gone already need not be known first: to delete it again does no harm.
    pulumi.run(
        site,
        variables,
        ["destroy", "--stack", STACKS[kind], "--yes", "--skip-preview", "--refresh=false"],
        "Try again, or run './dev down --force', which doesn't run Pulumi and doesn't call the API",
    )
    with steps.step("All objects of the environment removed from the cloud"):
        refuse_leftovers(leftovers.in_cloud(site), not_ours)


def agree_to_lose(
    not_ours: Sequence[CloudObject], steps: Steps, question: Callable[[str], bool] | None
) -> None:
    """Name the objects that 'pulumi destroy' keeps but that end with the sandbox, and ask."""
    if not not_ours:
        return
    steps.note(f"• './dev down' also deletes what 'pulumi destroy' keeps: {', '.join(map(str, not_ours))}")
    if question is not None and not question("Delete these objects, too?"):
        raise SandboxError("nothing was removed")


def refuse_leftovers(remaining: Sequence[CloudObject], not_ours: Sequence[CloudObject]) -> None:
    """Make sure that the environment left nothing behind."""
    known = {(item.kind, item.id) for item in not_ours}
    left = [str(item) for item in remaining if (item.kind, item.id) not in known]
    if left:
        raise SandboxError(
            f"still in the cloud: {', '.join(left)}. To remove these objects, run './dev down --force'"
        )


def _remove_files(site: Site) -> None:
    stack_settings.remove(site)  # before the passphrase, without which the salt in them is a trap
    for path in (site.kubeconfig, site.ssh_key):
        path.unlink(missing_ok=True)
    for path in site.state.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if not site.state.is_mount():  # a volume of the user stays, empty
        site.state.rmdir()
