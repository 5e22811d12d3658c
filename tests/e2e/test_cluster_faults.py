"""Four cells of ``./dev bench cluster_faults``, each of which begins with what the one before it has left."""

from __future__ import annotations

import pytest

from tests.e2e.cluster_changes import CHANGES
from tests.e2e.fault_cells import Stage, run_cell
from tests.e2e.injected_faults import FAULTS

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def stage(clone):
    return Stage(clone)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("grow a pool", "lost answers"),
        ("shrink a pool", "the drained node dies"),
        ("destroy", "SIGKILL of the engine"),
        ("first up", "k3s does not start"),
    ],
)
def test_after_the_next_up_all_is_as_wanted(stage, change, fault):
    cell = run_cell(stage, CHANGES[change], FAULTS[fault])
    assert cell.problems == ()
    assert cell.struck
