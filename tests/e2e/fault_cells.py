"""One cell of the matrix after the other, on one environment: something goes wrong while it is changed."""

import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from sandbox.kubernetes import releases
from tests.e2e import cluster_checks, cluster_state, server_loss, workload
from tests.e2e.cluster_changes import BASE, CONTROLS, NEWER, OLDER, Change
from tests.e2e.conftest import Clone
from tests.e2e.injected_faults import Fault, Struck
from tests.e2e.probing_clients import ReadyWatch, ServiceClient

UP_SECONDS = 600.0
SETTLING = 90.0
"""Seconds within which all is well after the last ``up``: Nodes get ready, and the CCM does its part."""
TRACE = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Cell:
    change: str
    fault: str
    problems: tuple[str, ...] = ()  # what was wrong; none: it ended well
    seconds: float = 0.0  # from the beginning of the change until all was as wanted
    struck: int = 0  # how often the fault struck
    failed: int = 0  # how many runs failed or were killed
    # Requests to a Service that were lost meanwhile: after how many seconds, and why.
    lost: tuple[str, ...] = ()


@dataclass
class Stage:
    clone: Clone
    # Of its stack, as far as changes set them.
    settings: dict[str, object] = field(default_factory=lambda: {**BASE})
    serves: bool = False  # whether the sandbox runs
    stands: bool = False  # whether the environment is there
    ill: bool = False  # whether a cell has left it as it should not be
    url: str = ""  # of the workload

    def wanted(self) -> cluster_checks.Wanted:
        controls, workers = int(str(self.settings["controlCount"])), int(str(self.settings["workerCount"]))
        newer = self.settings["k3sVersion"] == releases.k3s_name(NEWER)
        return cluster_checks.Wanted(
            frozenset(CONTROLS[:controls]),
            frozenset(f"worker-{number}" for number in range(1, workers + 1)),
            f"v{NEWER if newer else OLDER}",
            str(self.settings["location"]),
        )

    def configure(self, settings: Mapping[str, object]) -> bool:
        """Set settings; whether one of them was another one."""
        changed = any(self.settings[name] != value for name, value in settings.items())
        self.settings |= settings
        self.clone.configure(**self.settings)
        return changed

    def prepare(self, change: Change) -> None:
        version = self.settings["k3sVersion"]
        goes_down = change.before.get("k3sVersion", version) != version
        if self.ill or (self.stands and goes_down):
            self.clone.dev("down", "--force")
            self.serves = self.stands = self.ill = False
            self.settings = {**BASE}
        changed = self.configure({"restoreFrom": "", **change.before})
        if change.begins:
            self._have_nothing()
        elif not self.stands:
            self._bring_up()
        elif changed:
            self.clone.pulumi(*cluster_state.UP, seconds=UP_SECONDS)
        if not change.begins:
            self.url = workload.deploy(self.clone)
            workload.spread(self.clone)

    def _bring_up(self) -> None:
        self.clone.dev("up", seconds=UP_SECONDS)
        self.serves = self.stands = True

    def _have_nothing(self) -> None:
        """The sandbox runs, with an empty cloud."""
        if self.stands:
            self.clone.pulumi(*cluster_state.DESTROY, seconds=UP_SECONDS)
        elif not self.serves:
            # up starts the sandbox, then the program refuses this value
            self.clone.configure(workerCount=-1)
            refused = self.clone.dev("up", check=False)
            assert refused.returncode
            assert "workerCount" in refused.stdout
        self.serves, self.stands = True, False
        self.configure(BASE)


def run_cell(stage: Stage, change: Change, fault: Fault) -> Cell:
    """Let one thing go wrong during one change, then repeat the command and look at everything."""
    try:
        stage.prepare(change)
        _lose(stage, change)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        stage.ill = True
        return Cell(change.name, fault.name, (f"before the fault: {error}",))
    began = time.monotonic()
    try:
        return _run(stage, change, fault, began)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        stage.ill = True
        return Cell(change.name, fault.name, (str(error),), time.monotonic() - began)


def _lose(stage: Stage, change: Change) -> None:
    """What is lost before a change; a snapshot of it is what the cluster begins from again."""
    stage.configure({**change.after, "restoreFrom": ""})
    if change.loses:
        taken = stage.clone.root / "taken"
        server_loss.take_snapshot(stage.clone, taken)
        server_loss.lose(stage.clone, change.loses)
        stage.configure({"restoreFrom": str(taken)})


def _run(stage: Stage, change: Change, fault: Fault, began: float) -> Cell:
    clone, watch, client = stage.clone, ReadyWatch(stage.clone.site.kubeconfig), None
    with ExitStack() as asking:
        if not change.begins and not change.ends:
            asking.enter_context(watch)
            client = asking.enter_context(ServiceClient(stage.url))
        struck = fault.strike(clone, change)
        stage.stands = True
        clone.pulumi(*(cluster_state.DESTROY if change.ends else cluster_state.UP), seconds=UP_SECONDS)
        problems = settled(stage, change)
        seconds = time.monotonic() - began
    problems += complaints(struck) + ([] if change.ends else idle(clone))
    if watch.least == 0:
        problems.append("the workload with two replicas and a budget had no ready Pod for a time")
    stage.stands, stage.ill = not change.ends, bool(problems)
    lost = [f"{at - began:.1f} s: {why}" for at, why in client.lost] if client else []
    return Cell(change.name, fault.name, tuple(problems), seconds, struck.times, struck.failed, tuple(lost))


def settled(stage: Stage, change: Change) -> list[str]:
    """What is not as it is wanted after some time in which it may become so."""
    if change.begins:
        workload.deploy(stage.clone)
    deadline = time.monotonic() + SETTLING
    while True:
        facts = cluster_checks.look(stage.clone, gone=change.ends)
        problems = cluster_checks.left(facts) if change.ends else cluster_checks.wrong(stage.wanted(), facts)
        if not problems or time.monotonic() > deadline:
            return problems
        time.sleep(1)


def complaints(struck: Struck) -> list[str]:
    found = [] if struck.times else ["the fault never struck"]
    if any(TRACE in said for said in struck.said):
        found.append("a run ended with a stack trace:\n" + next(s for s in struck.said if TRACE in s))
    return found


def idle(clone: Clone) -> list[str]:
    """What another ``up`` still changes."""
    lines = cluster_state.changed(clone.pulumi(*cluster_state.UP, seconds=UP_SECONDS).stdout)
    return ["another up changes: " + "; ".join(line.strip() for line in lines)] if lines else []
