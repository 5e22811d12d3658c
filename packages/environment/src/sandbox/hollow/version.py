"""Which Kubernetes the cluster on loopback has: it begins with what the stack asks for, and keeps that.

Kubernetes never goes back, and a step forward is one of an operator, not of a program that starts again.
"""

from __future__ import annotations

from hetzner_machines import records
from sandbox import stack_settings
from sandbox.environment import HOLLOW, STACKS
from sandbox.errors import SandboxError
from sandbox.kubernetes import releases
from sandbox.site import Clone


def kept(site: Clone) -> str:
    """The cluster's version; empty without a cluster, or if the sandbox no longer has that version."""
    try:
        noted = (site.state / "control-plane" / "version").read_text().strip()
    except FileNotFoundError:
        return ""
    return noted if noted in releases.versions() else ""


def begin(site: Clone, asked: str = "") -> str:
    """The version that the cluster is started with, kept from now on."""
    version = kept(site) or asked or stack_settings.Settings(site, STACKS[HOLLOW]).kubernetes
    folder = site.state / "control-plane"
    folder.mkdir(exist_ok=True)
    records.write(folder / "version", f"{version}\n")
    return version


def refuse_another(site: Clone, wanted: str) -> None:
    """Make sure that the cluster has what is asked for."""
    if (there := kept(site)) and there != wanted:
        raise SandboxError(
            f"Kubernetes {wanted}: the hollow cluster here has {there} and keeps it; './dev down' first"
        )
