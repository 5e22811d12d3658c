"""Whatever goes wrong with the cloud for a while, all ends as it should.

A row is a test, its cells run side by side.
"""

import pytest

from tests.faults.cells import run_cells
from tests.faults.faults import FAULTS, NOTHING
from tests.faults.operations import OPERATIONS

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.timeout(1800)]
FAILURES = [fault for fault in FAULTS.values() if not fault.lies]
LIES = [fault for fault in FAULTS.values() if fault.lies]


@pytest.mark.parametrize("faults", [[NOTHING, *FAILURES], LIES], ids=["the cloud fails", "the cloud lies"])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_operation_converges(operation: str, faults: list) -> None:
    pairs = [(OPERATIONS[operation], fault) for fault in faults]
    cells = [cell async for cell in run_cells(pairs)]
    assert {cell.fault: cell.problem for cell in cells if cell.problem} == {}
    assert len(cells) == len(faults)
