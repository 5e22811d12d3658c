"""What is compared: our CCM, and the official one if there is a binary of it, as processes.

Both get the same environment variables and flags, which both understand, and the same API server and cloud.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.lab.cloud import LOCATION, NETWORK, TOKEN
from bench.lab.pod import Pod
from bench.lab.processes import child
from bench.lab.report import BenchError, say
from bench.lab.stage import CLUSTER_CIDR, Stage

_KEPT = ("PATH", "HOME", "LANG", "TMPDIR")
_TAIL = 2000


@dataclass(frozen=True)
class Subject:
    """A cloud-controller-manager."""

    name: str  # for people
    command: tuple[str, ...]  # how it starts, without flags
    flags: tuple[str, ...] = ()  # those of its own


OURS = Subject("ours", (sys.executable, "-m", "ccm"))
# What the official manifests and the chart (v1.35.0) set, and what matters here: without the feature gate it
# looks at all routes every few seconds, and fights for the network's lock with itself.
_OFFICIAL_FLAGS = (
    "--route-reconciliation-period=30s",
    "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true",
)


def official(program: Path | str) -> Subject:
    """The official CCM as its manifests run it."""
    return Subject("peer", (str(program),), _OFFICIAL_FLAGS)


def subjects(peer: Path | None) -> list[Subject]:
    """Ours, and the official one if a binary is named."""
    return [OURS, *([official(peer)] if peer else [])]


def environment(endpoint: str, *, network: bool, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The official CCM's variables, which ours reads too."""
    private = {"HCLOUD_NETWORK": NETWORK, "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true"}
    return {
        "HCLOUD_TOKEN": TOKEN,
        "HCLOUD_ENDPOINT": endpoint,
        "HCLOUD_LOAD_BALANCERS_LOCATION": LOCATION,
        "HCLOUD_METRICS_ENABLED": "false",
        **(private if network else {}),
        **(more or {}),
    }


def flags(kubeconfig: Path | None, *, routes: bool) -> list[str]:
    """Flags that both understand; everything else is at its default."""
    return [
        "--cloud-provider=hcloud",
        *([f"--kubeconfig={kubeconfig}"] if kubeconfig else []),
        "--allow-untagged-cloud",
        "--leader-elect=false",
        "--allocate-node-cidrs=true",
        f"--configure-cloud-routes={str(routes).lower()}",
        f"--cluster-cidr={CLUSTER_CIDR}",
        "--secure-port=0",
        "--webhook-secure-port=0",
    ]


@contextmanager
def running(
    subject: Subject,
    stage: Stage,
    *,
    network: bool = True,
    routes: bool = False,
    more: Mapping[str, str] | None = None,
    pod: Pod | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """A CCM for the time of a block, in a Pod's place or with an administrator's kubeconfig."""
    log = stage.directory / f"{subject.name}.log"
    variables = {name: os.environ[name] for name in _KEPT if name in os.environ}
    variables |= environment(stage.cloud.endpoint, network=network, more=more)
    head = list(subject.command)
    if pod is not None and subject is OURS:
        variables |= pod.environment()
        head = pod.command([pod.python, *head[1:]])
    elif pod is not None:
        variables |= pod.variables
        head = pod.command(head, inside=False)
    kubeconfig = None if pod is not None else stage.kubeconfig
    command = [*head, *flags(kubeconfig, routes=routes), *subject.flags]
    say(f"running {subject.name}: {Path(subject.command[0]).name} {' '.join(subject.command[1:])}".rstrip())
    with child(command, log=log, environment=variables) as process:
        try:
            yield process
        except BenchError as error:
            raise BenchError(f"{error}\n{_end_of(log)}") from None
        finally:
            ended = process.poll()
        if ended is not None:
            raise BenchError(f"{subject.name} ended by itself with exit code {ended}:\n{_end_of(log)}")


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-_TAIL:]
