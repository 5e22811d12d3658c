"""The layers of tests, by what a change can break, and pytest's arguments for each."""

from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.environment import HOLLOW, MACHINES

NIGHTLY = "nightly"
"""The pytest mark of tests that ``./dev test`` skips by default, and that ``./dev test all`` runs."""
PROFILE = "CCMFS_EXAMPLES"
"""The environment variable with the hypothesis profile: ``commit`` or ``nightly``."""
COMMIT = "commit"


@dataclass(frozen=True)
class Layer:
    """Tests that run together."""

    name: str  # as ``./dev test --durations`` shows it
    marks: str  # pytest's expression for its tests
    arguments: Sequence[str]  # everything else that pytest gets
    any_of: frozenset[str] = frozenset()  # a test file without these marks has no tests of the layer
    prepared: bool = True  # whether the layer needs what ``./dev setup`` makes

    def command(self, *, nightly: bool, also: str = "") -> list[str]:
        """Pytest's arguments."""
        marks = [f"({self.marks})", *([] if nightly else [f"not {NIGHTLY}"]), *filter(None, [also])]
        return ["-q", "-m", " and ".join(marks), *self.arguments]


_WORKERS = ("-n", "3")  # three processes use 90 % of two cores; with four, the tests take longer
_PARALLEL = (*_WORKERS, "--dist", "worksteal")
UNIT = Layer("unit", "not slow and not machines and not cluster", _PARALLEL, prepared=False)
PROCESSES = Layer("processes", "slow and not machines and not cluster", _PARALLEL, frozenset({"slow"}))
# One process runs a whole module, whose tests share an environment (tests/e2e/conftest.py).
_MODULES = (*_WORKERS, "--dist", "loadfile", "--no-loadscope-reorder")
_MARKS = frozenset({"machines", "cluster"})
ENVIRONMENTS = {
    MACHINES: Layer("environments", "machines or cluster", _MODULES, _MARKS),
    HOLLOW: Layer("environments", "cluster and not machines", _MODULES, _MARKS),
}


def layers(servers: str) -> Sequence[Layer]:
    """All layers, the fast ones first."""
    return UNIT, PROCESSES, ENVIRONMENTS[servers]


def joined(servers: str) -> Sequence[Layer]:
    """All layers for a run that doesn't stop at the first failure. The slow tests run together, so that short
    ones keep the cores busy while the last long ones run.
    """
    environments = ENVIRONMENTS[servers]
    marks = f"({PROCESSES.marks}) or ({environments.marks})"
    return UNIT, Layer("slow", marks, environments.arguments, PROCESSES.any_of | environments.any_of)
