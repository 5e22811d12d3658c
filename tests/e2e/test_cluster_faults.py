"""Changes of a cluster on machines while something goes wrong.

Each cell changes a cluster while one fault strikes; the change may fail then, with a message. Afterwards the
same command runs again, and everything is as wanted. All cells share one environment, and each begins with
what the one before it has left.

Five cells run every night. ``CCMFS_CELLS=upgrade/`` runs all cells whose name contains that text, and
``CCMFS_CELLS=/`` runs every cell; add ``-s`` to see how long each takes.
"""

import os

import pytest

from tests.e2e.fault_cells import Stage, run_cell
from tests.e2e.injected_faults import cells

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

CELLS = {f"{change.name}/{fault.name}": (change, fault) for change, fault in cells()}
NIGHTLY = (
    "first up/SIGKILL of the engine",
    "grow a pool/lost answers",
    "shrink a pool/the drained node dies",
    "destroy/SIGKILL of the engine",
    "first up/k3s does not start",
)
TEXT = os.environ.get("CCMFS_CELLS")


@pytest.fixture(scope="module")
def stage(clone):
    return Stage(clone)


@pytest.mark.parametrize("name", NIGHTLY if TEXT is None else [name for name in CELLS if TEXT in name])
def test_after_the_next_up_all_is_as_wanted(stage, name):
    cell = run_cell(stage, *CELLS[name])
    print(f"{name}: {cell.seconds:.0f} s, {cell.failed} runs failed, lost requests: {cell.lost}")
    assert cell.problems == ()
    assert cell.struck
