"""The CCM in the cluster makes room for one that runs on this host, and comes back afterwards.

Changes are recorded before they are made. A command that was killed leaves that record without
the lock, and the next one that could be surprised by a cluster without a CCM undoes it: :func:`heal`.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ccmfs_common import locks
from hetzner_machines import processes, records
from hetzner_machines.processes import Identity
from sandbox import cluster, environment_lock
from sandbox.errors import SandboxError
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import Clone, Site
from sandbox.waiting import until

GONE_SECONDS = 120
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
    """Why './dev run' leaves the cluster without a CCM, and what to do; empty if it doesn't."""
    with idle(clone) as mine:
        if not mine:
            return (
                "'./dev run' is running the CCM on this host; the terminal of './dev run' shows the CCM's log"
            )
    if active(clone):
        return "no CCM runs, because './dev run' was killed. './dev up' starts the cluster's CCM again"
    return ""


def refuse(clone: Clone, what: str) -> None:
    """Refuse a command while './dev run' replaces the cluster's CCM."""
    with idle(clone) as mine:
        if not mine:
            raise SandboxError(
                f"'./dev run' is running the CCM in another terminal; stop './dev run' there before {what}"
            )


@contextmanager
def taken(site: Site, built: Toolchain, say: Callable[[str], None]) -> Iterator[Callable[[int], None]]:
    """Scale the cluster's CCM down for a block. Yields a function for the ID of each process in its place."""
    with alone(site):
        _restore(site, built, say)
        replicas = cluster.deployment(site, built)["spec"].get("replicas", 1)
        _note(site, Taken(replicas))
        try:
            _scale(site, built, 0)
            if not until(lambda: not cluster.ccm_pods(site, built), GONE_SECONDS):
                raise SandboxError(f"the CCM's Pod didn't terminate within {GONE_SECONDS} s")
            yield lambda pid: _note(site, Taken(replicas, processes.identify(pid)))
        finally:
            _restore(site, built, say)


def heal(site: Site, built: Toolchain, say: Callable[[str], None]) -> None:
    """Bring the cluster's CCM back where a command that had taken it over was killed."""
    with idle(site) as mine:
        if mine:
            _restore(site, built, say)


def _restore(site: Site, built: Toolchain, say: Callable[[str], None]) -> None:
    if not active(site):
        return
    found = msgspec.json.decode(_record(site).read_bytes(), type=Taken)
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


@contextmanager
def alone(clone: Clone) -> Iterator[None]:
    """Hold the lock of './dev run', while no command changes the environment."""
    with ExitStack() as held:
        # Only at the beginning: './dev up' may make a worker more meanwhile.
        with environment_lock.needing(clone, "run"):
            if not held.enter_context(idle(clone)):
                raise SandboxError("'./dev run' is already running in this clone; stop it with Ctrl-C")
        yield


@contextmanager
def idle(clone: Clone) -> Iterator[bool]:
    """Whether './dev run' isn't running; if it isn't, it can't start during the block."""
    with locks.held(clone.state / "run.lock") as lock:
        yield lock is not None


def _record(clone: Clone) -> Path:
    return clone.state / "run.json"


def _note(clone: Clone, what: Taken) -> None:
    records.write_json(_record(clone), what)
