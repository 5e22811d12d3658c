"""``./dev up``: the whole environment, from nothing to nodes that our CCM has initialized."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hetzner_machines import internet
from hetzner_machines.names import Names
from sandbox import cluster, conformance_lock, console, daemon, limits, pulumi, stack_settings, takeover
from sandbox.backend_choice import AUTO, Choice, decide, look, present, refuse_internet
from sandbox.built_kubernetes import begin_hollow, refuse_another
from sandbox.console import Steps
from sandbox.environment import HOLLOW, MACHINES, STACKS
from sandbox.errors import SandboxError
from sandbox.hollow import ccm
from sandbox.kubernetes import releases, toolchain
from sandbox.overview import overview
from sandbox.prepare import agree, announce, prepare
from sandbox.site import Clone, Site

HELP = "install missing programs and create the environment with 'pulumi up'"
CHANGES = STARTS = CLAIMS = True
READY_SECONDS = 180
MOST_WORKERS = 99  # as the program's workerCount; a wrong one must not get into the stack's settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What servers are, how the cloud behaves, and how many workers."""
    parser.add_argument(
        "--backend",
        choices=[AUTO, MACHINES, HOLLOW],
        default=AUTO,
        help="machines: servers are Linux machines; hollow: servers are only API records, with simulated "
        "Nodes; auto: machines if this host can run them, otherwise hollow",
    )
    parser.add_argument(
        "--actions",
        choices=["instant", "realistic"],
        help="how long each cloud action takes (default: instant)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--k3s",
        type=Path,
        metavar="FILE",
        help="run the k3s binary FILE on the machines, instead of the stand-in for k3s",
    )
    which.add_argument(
        "--kubernetes",
        metavar="VERSION",
        help=f"set the stack's k3sVersion to one of {', '.join(releases.ascending())}, or to a minor version "
        "such as 1.36",
    )
    parser.add_argument(
        "--internet",
        action="store_true",
        help="let machines and Pods reach the Internet through this host, until you run './dev down'",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help=f"set the stack's workerCount to N (0 to {MOST_WORKERS})"
    )


def check(clone: Clone, arguments: argparse.Namespace) -> None:
    """Refuse what can't come up: wrong arguments, wrong settings, a host that has not enough."""
    daemon.check_k3s(arguments.k3s)
    if arguments.workers is not None and not 0 <= arguments.workers <= MOST_WORKERS:
        raise SandboxError(f"--workers {arguments.workers}: give a whole number from 0 to {MOST_WORKERS}")
    refuse_other_ways(daemon.find(clone), arguments.actions, arguments.k3s)
    choice = chosen(clone, arguments)
    refuse_beside_pools(clone, STACKS[choice.kind], arguments.workers)
    replaced = {"workerCount": arguments.workers, "k3sVersion": arguments.kubernetes}
    stack_settings.check(
        clone, STACKS[choice.kind], [name for name, value in replaced.items() if value is not None]
    )
    limits.refuse(limits.look(clone, choice, arguments.workers))


def chosen(clone: Clone, arguments: argparse.Namespace) -> Choice:
    """What servers will be, with which Kubernetes."""
    running, choice = daemon.find(clone), choose(clone, arguments.backend)
    refuse_internet(choice.kind, arguments.internet)
    if arguments.k3s or (running and running.k3s):
        return choice
    return replace(choice, kubernetes=version(clone, choice.kind, arguments.kubernetes))


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Bring the environment up; whatever is there already stays."""
    steps, choice = Steps(), chosen(site, arguments)
    kind = choice.kind
    announce(choice, steps)
    tell_limits(site, choice, arguments.workers, steps)
    unbuilt = any(toolchain.unbuilt(site.cache, components) for components in choice.toolchains)
    agree(choice, unbuilt=unbuilt, question=console.question if sys.stdin.isatty() else None)
    built = prepare(site, steps, choice)
    if kind == HOLLOW:
        begin_hollow(site, choice.kubernetes)
    with steps.step("Sandbox cloud") as progress:
        daemon.start(
            site, kind, arguments.actions or "instant", progress, arguments.k3s, internet=arguments.internet
        )
    if arguments.internet:
        tell_what_refuses(site, internet.refusing_here(), steps)
    variables = pulumi.environment(site, built)
    stack = STACKS[kind]
    stack_settings.ensure(site, stack)
    pulumi.heal(site, variables, stack, steps)
    pulumi.select_stack(site, variables, stack)
    if arguments.workers is not None:
        pulumi.set_config(site, variables, stack, "workerCount", str(arguments.workers))
    if arguments.kubernetes:
        pulumi.set_config(site, variables, stack, "k3sVersion", releases.k3s_name(choice.kubernetes))
    pulumi.run(
        site,
        variables,
        ["up", "--stack", stack, "--yes", "--skip-preview"],
        "See the error above. To try again, run './dev up'. To remove everything, run './dev down'",
    )
    if kind == HOLLOW:
        with takeover.idle(site) as idle:
            shutil.copyfile(site.control_plane / "kubeconfig.yaml", site.kubeconfig)
            site.kubeconfig.chmod(0o600)
            if idle:  # else './dev run' replaces it, and starts it at its end
                with steps.step("The CCM runs as a process on this host"):  # hollow nodes run no Pods
                    ccm.start(site)
    else:
        takeover.heal(site, built, steps.note)
        conformance_lock.heal(site, built, steps.note)
    with steps.step("Nodes are Ready and initialized by the CCM") as progress:
        cluster.await_nodes(site, built, READY_SECONDS, progress)
    steps.note("\n" + overview(site, built, steps.width))
    return 0


def version(site: Clone, kind: str, asked: str | None) -> str:
    """Which Kubernetes there will be."""
    set_up = stack_settings.Settings(site, STACKS[kind])
    found = releases.named(asked, "--kubernetes") if asked else set_up.kubernetes
    if kind == HOLLOW:
        refuse_another(site, found)
    return found


def tell_what_refuses(site: Site, chains: Sequence[str], steps: Steps) -> None:
    """Name the firewalls of the host that block the machines; changing them is up to the user."""
    if chains:
        link = Names(site.id).host_link
        steps.note(
            f"• --internet: this host's firewall forwards no packets by default ({', '.join(chains)}). "
            f"If no rule allows packets of {link}, machines can't reach the Internet. To allow the packets:\n"
            f"  iptables -I FORWARD -i {link} -j ACCEPT\n"
            f"  iptables -I FORWARD -o {link} -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"
        )


def tell_limits(site: Site, choice: Choice, workers: int | None, steps: Steps) -> None:
    """Print where the host may have too little."""
    for finding in limits.look(site, choice, workers):
        if finding.severity == "note":
            steps.note(f"• {finding.what}: {finding.found} → {finding.remedy}")


def refuse_other_ways(running: daemon.Running | None, actions: str | None, k3s: Path | None) -> None:
    """Refuse options that differ from those of the running process."""
    if running is None:
        return
    asked = {"--actions": (actions, running.actions), "--k3s": (k3s and str(k3s.resolve()), running.k3s)}
    for option, (wanted, has) in asked.items():
        if wanted and wanted != has:
            raise SandboxError(
                f"{option} {wanted}: the running sandbox (process {running.pid}) has the value "
                f"{has or 'none'}. To change the value, run './dev down' first"
            )


def refuse_beside_pools(site: Clone, stack: str, workers: int | None) -> None:
    """Refuse ``--workers`` beside the setting ``pools``, which overrides it."""
    if workers is not None and stack_settings.Settings(site, stack).pools:
        raise SandboxError(
            f"--workers {workers}: not allowed, because pools set the number of workers. Change a pool, for "
            f"example: pulumi config set -s {stack} --path 'ccm-from-scratch:pools[0].count' {workers}"
        )


def choose(site: Clone, wanted: str) -> Choice:
    """What servers are here: what they are already, else what can be."""
    running = daemon.find(site)
    if running and running.backend not in STACKS:
        raise SandboxError(
            f"the running sandbox (process {running.pid}, backend {running.backend}) serves only the API and "
            "runs no cluster. Stop this process, then run './dev up'"
        )
    there = present(site)
    if there and wanted not in {AUTO, there}:
        raise SandboxError(
            f"--backend {wanted}: this clone already has an environment with {there}; run './dev down' first"
        )
    return decide(there or wanted, look(site))
