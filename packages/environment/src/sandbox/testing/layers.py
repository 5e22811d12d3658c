"""The layers of tests, by what a change can break, and pytest's arguments for each."""

from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.environment import HOLLOW, MACHINES

NIGHTLY = "nightly"
"""The pytest mark of tests that ``./dev test`` skips by default, and that ``./dev test all`` runs."""
SMOKE = "smoke"
"""The pytest mark of slow tests that ``./dev test`` runs after each change of a file that they use."""
PROFILE = "CCMFS_EXAMPLES"
"""The environment variable with the hypothesis profile: ``commit`` or ``nightly``."""
COMMIT = "commit"


@dataclass(frozen=True)
class Layer:
    """Tests that run together."""

    name: str  # as ``./dev test --durations`` shows it
    marks: str  # pytest's expression for its tests
    arguments: Sequence[str]  # everything else that pytest gets
    prepared: bool = True  # whether the layer needs what ``./dev setup`` makes

    def command(self, *, nightly: bool, also: str = "") -> list[str]:
        """Pytest's arguments."""
        marks = [f"({self.marks})", *([] if nightly else [f"not {NIGHTLY}"]), *filter(None, [also])]
        return ["-q", "-m", " and ".join(marks), *self.arguments]


UNIT = Layer(
    "unit", "not slow and not machines and not cluster", ("-n", "3", "--dist", "worksteal"), prepared=False
)
PROCESSES = Layer("processes", "slow and not machines and not cluster", ("-n", "3", "--dist", "worksteal"))
# One process runs a whole module, and has one environment of each kind (tests/e2e/conftest.py).
_MODULES = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder")
ENVIRONMENTS = {
    MACHINES: Layer("environments", "machines or cluster", _MODULES),
    HOLLOW: Layer("environments", "cluster and not machines", _MODULES),
}


def layers(servers: str) -> Sequence[Layer]:
    """All layers, the fast ones first."""
    return UNIT, PROCESSES, ENVIRONMENTS[servers]
