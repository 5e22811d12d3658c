"""The CCM as a process on this machine, for the cluster on loopback that has no node to run Pods."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from hetzner_machines import processes
from hetzner_machines.processes import Identity
from sandbox.errors import SandboxError
from sandbox.site import Site

NETWORK = CLUSTER = "ccm-from-scratch"  # what the program calls both, and which Pods' range it expects
CLUSTER_CIDR = "10.244.0.0/16"
SETTINGS = ("HCLOUD_", "ROBOT_", "CCM_")
STOP_SECONDS = 20


def log_file(site: Site) -> Path:
    """Where the process prints to."""
    return site.state / "ccm.log"


def command(kubeconfig: Path) -> list[str]:
    """The command line; it serves no port, because two clones would want the same one."""
    return [
        sys.executable,
        "-m",
        "ccm",
        "--cloud-provider=ccm-from-scratch",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--cluster-cidr={CLUSTER_CIDR}",
        "--secure-port=0",
    ]


def kept(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without settings of a CCM.

    A shell in which ``./dev env`` was evaluated before the last ``./dev down`` has another token, which would
    win over the file's.
    """
    return {name: value for name, value in environment.items() if not name.startswith(SETTINGS)}


def outside(endpoint: str) -> dict[str, str]:
    """Settings of any CCM on this host, which isn't a server: how it reaches the cloud."""
    return {
        "HCLOUD_ENDPOINT": endpoint,
        "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
        "HCLOUD_METRICS_ENABLED": "false",
    }


def variables(site: Site) -> dict[str, str]:
    """The environment: the token by file, so that it is in no process list."""
    return {
        **kept(os.environ),
        **outside(site.endpoint),
        "HCLOUD_TOKEN_FILE": str(site.state / "token"),
        "HCLOUD_NETWORK": NETWORK,
        # what 'pulumi destroy' knows the cluster's load balancers by when the CCM has ended
        "CCM_CLUSTER_ID": CLUSTER,
    }


def start(site: Site) -> int:
    """Start the process unless it runs; returns its id."""
    running = find(site)
    if running:
        return running.pid
    with log_file(site).open("ab") as log:
        child = subprocess.Popen(
            command(site.kubeconfig),
            cwd=site.root,
            env=variables(site),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    if started := processes.identify(child.pid):  # it may have ended already; its log says why
        _record(site).write_text(json.dumps(asdict(started)))
    return child.pid


def find(site: Site) -> Identity | None:
    """The process, if it runs."""
    try:
        process = Identity(**json.loads(_record(site).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None  # none yet, or what a power cut has left of it
    return process if processes.alive(process) else None


def stop(site: Site) -> None:
    """End the process; it releases its lease."""
    process = find(site)
    if process is None:
        return
    processes.send(process, signal.SIGTERM)
    if not processes.wait_gone(process, STOP_SECONDS):
        raise SandboxError(
            f"the CCM (process {process.pid}) didn't end after SIGTERM; end it with 'kill -9 {process.pid}'"
        )


def _record(site: Site) -> Path:
    return site.state / "ccm.json"
