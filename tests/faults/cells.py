"""One cell of the matrix: one thing goes wrong while the CCM does one thing."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.faults import NOTHING, Fault
from tests.faults.lab import NotConverged, open_lab
from tests.faults.operations import THREE_NODES, Operation, set_up

SETTLING = 120.0  # seconds that the beginning may take
CONVERGING = 120.0  # seconds after the fault that the end may take
AT_ONCE = 6  # cells side by side: nearly all of their time is waiting


@dataclass(frozen=True)
class Cell:
    operation: str  # the row
    fault: str  # the column
    # what is wrong at the end; empty = it converged, nothing doubled, lost, or wrongly deleted
    problem: str = ""


async def run_cell(operation: Operation, fault: Fault) -> Cell:
    """Let one thing go wrong during one operation, in a cluster and a cloud of its own.

    Needs :func:`tests.faults.lab.short_pauses` around it.
    """
    with tempfile.TemporaryDirectory() as folder:
        async with open_lab(Path(folder), short_timeout=fault.late) as lab:
            try:
                await set_up(lab)
                await operation.prepare(lab)
                await lab.until([*THREE_NODES, *operation.begins], SETTLING)
            except NotConverged as error:
                return Cell(operation.name, fault.name, f"before the fault: {error}")
            await operation.outside(lab)
            await lab.emulator.admin("DELETE", "/requests")
            passing = await lab.strike(fault)
            try:
                await operation.act(lab)
                if passing is not None:
                    await passing
                await lab.until(operation.ends, CONVERGING)
            except NotConverged as error:
                return Cell(operation.name, fault.name, str(error))
            problem = "" if lab.hits or fault is NOTHING else "the fault never struck before all was right"
            return Cell(operation.name, fault.name, problem)


async def run_cells(pairs: Sequence[tuple[Operation, Fault]]) -> AsyncIterator[Cell]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def run(operation: Operation, fault: Fault) -> Cell:
        async with turns:
            return await run_cell(operation, fault)

    for ended in asyncio.as_completed([run(*pair) for pair in pairs]):
        yield await ended
