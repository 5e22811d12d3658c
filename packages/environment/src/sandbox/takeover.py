"""The CCM in the cluster makes room for one that runs on this host, and comes back afterwards.

Changes are recorded before they are made. A command that was killed leaves that record without
the lock, and the next one that could be surprised by a cluster without a CCM undoes it: :func:`heal`.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ccmfs_common import locks
from hetzner_machines import processes, records
from hetzner_machines.processes import Identity
from sandbox import cluster, environment_lock
from sandbox.errors import SandboxError
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import Clone, Site

GONE_SECONDS = 60
POLL_SECONDS = 0.1
CALL_SECONDS = 30


@dataclass(frozen=True)
class Taken:
    """What has been taken over."""

    replicas: int  # how many the Deployment had
    process: Identity | None = None  # the CCM on this host; None before it starts


def active(clone: Clone) -> bool:
    """Whether a CCM on this host replaces the cluster's, or did so and was killed."""
    return _record(clone).exists()


def why_no_pod(clone: Clone) -> str:
    """Why the cluster has no CCM, where that is on our account, and what to do; empty where it is not."""
    with idle(clone) as mine:
        if not mine:
            return "'./dev run' runs the CCM, and prints its log in its own terminal"
    if active(clone):
        return "no CCM runs: a './dev run' was killed; './dev up' brings the cluster's back"
    return ""


def refuse(clone: Clone, what: str) -> None:
    """Refuse a command while './dev run' replaces the cluster's CCM."""
    with idle(clone) as mine:
        if not mine:
            raise SandboxError(f"'./dev run' runs the CCM in another terminal; end it there before {what}")


@contextmanager
def taken(site: Site, built: Toolchain, say: Callable[[str], None]) -> Iterator[Callable[[int], None]]:
    """The cluster's CCM is scaled down inside of it.

    Returns:
        A function to call with the ID of each process that replaces it.
    """
    with alone(site):
        _restore(site, built, say)
        replicas = cluster.deployment(site, built)["spec"].get("replicas", 1)
        _note(site, Taken(replicas))
        try:
            _scale(site, built, 0)
            _await_no_pod(site, built)
            yield lambda pid: _note(site, Taken(replicas, processes.identify(pid)))
        finally:
            _restore(site, built, say)


def heal(site: Site, built: Toolchain, say: Callable[[str], None]) -> None:
    """Bring the cluster's CCM back where a command that had taken it over was killed."""
    if active(site):
        with idle(site) as mine:
            if mine:
                _restore(site, built, say)


def _restore(site: Site, built: Toolchain, say: Callable[[str], None]) -> None:
    found = _read(site)
    if found is None:
        return
    if found.process and processes.send(found.process, signal.SIGTERM):
        processes.wait_gone(found.process, GONE_SECONDS)
    # Replicas that were set since then win.
    if found.replicas and not cluster.deployment(site, built)["spec"].get("replicas"):
        _scale(site, built, found.replicas)
        say("• the CCM in the cluster runs again")
    _record(site).unlink()


def _scale(site: Site, built: Toolchain, replicas: int) -> None:
    words = ["--namespace=kube-system", "scale", f"deployment/{cluster.CCM}", f"--replicas={replicas}"]
    command = [*words, f"--request-timeout={CALL_SECONDS}s"]
    problem = f"deployment/{cluster.CCM} can't be scaled"
    cluster.ask(site, built, command, problem, seconds=CALL_SECONDS)


def _await_no_pod(site: Site, built: Toolchain) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while cluster.ccm_pods(site, built):
        if time.monotonic() > deadline:
            raise SandboxError(f"the CCM's Pod does not end within {GONE_SECONDS} s")
        time.sleep(POLL_SECONDS)


@contextmanager
def alone(clone: Clone) -> Iterator[None]:
    """Hold the lock of './dev run', while no command changes the environment."""
    with ExitStack() as held:
        # Only at the beginning: './dev up' may make a worker more meanwhile.
        with environment_lock.needing(clone, "run"):
            if not held.enter_context(idle(clone)):
                raise SandboxError("'./dev run' runs already in this clone; end it in its terminal")
        yield


@contextmanager
def idle(clone: Clone) -> Iterator[bool]:
    """Whether './dev run' isn't running; if so, it can't start meanwhile."""
    with locks.held(clone.state / "run.lock") as lock:
        yield lock is not None


def _record(clone: Clone) -> Path:
    return clone.state / "run.json"


def _note(clone: Clone, what: Taken) -> None:
    records.write(_record(clone), json.dumps(asdict(what)))


def _read(clone: Clone) -> Taken | None:
    with suppress(FileNotFoundError):
        return taken_of(json.loads(_record(clone).read_text()))
    return None


def taken_of(raw: Mapping[str, Any]) -> Taken:
    """A record as it was written."""
    return Taken(raw["replicas"], raw["process"] and Identity(**raw["process"]))
