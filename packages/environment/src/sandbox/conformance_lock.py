"""Kubernetes' tests in a clone's cluster: one run at a time; what it changes about nodes is undone.

Changes are recorded before they are made. A run that was killed leaves that record without the
lock, and the next command that could be surprised by nodes that take no Pods undoes it: :func:`heal`.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ccmfs_common import locks
from hetzner_machines import records
from sandbox import cluster
from sandbox.errors import SandboxError
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import Clone, Site

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


@contextmanager
def alone(clone: Clone) -> Iterator[int]:
    """Run tests as the only one. Yields the lock's descriptor, for programs that outlive us."""
    with _lock(clone) as lock:
        if lock is None:
            raise SandboxError("Kubernetes' tests are already running in this cluster; wait until they end")
        yield lock


def refuse(clone: Clone, what: str) -> None:
    """Make sure that no tests run."""
    with _lock(clone) as lock:
        if lock is None:
            raise SandboxError(
                "'./dev conformance' is running in this clone; wait until it finishes, or end it, "
                f"before {what}"
            )


@contextmanager
def cordoned(site: Site, built: Toolchain, say: Callable[[str], None]) -> Iterator[None]:
    """Keep new Pods off the nodes with a control plane for a block. Call it only inside :func:`alone`."""
    nodes = cluster.get(site, built, "nodes", f"--selector={CONTROL_PLANE}")
    # What a person has cordoned stays so.
    names = [node["metadata"]["name"] for node in nodes if not node["spec"].get("unschedulable")]
    records.write(_record(site), json.dumps(names))
    try:
        if names:
            cluster.ask(site, built, ["cordon", *names], "kubectl cordon")
        yield
    finally:
        undo(site, built, say)


def heal(site: Site, built: Toolchain, say: Callable[[str], None]) -> None:
    """Let nodes take Pods again where a run of tests was killed; nothing while tests run."""
    with _lock(site) as lock:
        if lock is not None:
            undo(site, built, say)


def undo(site: Site, built: Toolchain, say: Callable[[str], None]) -> None:
    """Let nodes take Pods again that were cordoned here. Call it only inside :func:`alone`."""
    try:
        wanted = set(json.loads(_record(site).read_text()))
    except FileNotFoundError:
        return
    nodes = cluster.get(site, built, "nodes")
    there = {node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")}
    if names := sorted(wanted & there):
        cluster.ask(site, built, ["uncordon", *names], "kubectl uncordon")
        say(f"• {', '.join(names)}: uncordoned")
    _record(site).unlink()


def _lock(clone: Clone) -> AbstractContextManager[int | None]:
    """The descriptor of the lock, or None where tests run."""
    return locks.held(clone.state / "conformance.lock")


def _record(clone: Clone) -> Path:
    return clone.state / "cordoned.json"
