"""What becomes of a cluster changed while something goes wrong: ``./dev bench cluster_faults [--only TEXT]``.

Each cell changes a cluster on machines (a column) while one thing goes wrong (a row). The change may fail
then, with a message. When nothing goes wrong any more, the same command runs again, and everything is
looked at: ✓ and the seconds from the beginning until all was as wanted, or ✗ and below the table what was
not. A workload with two replicas and a budget runs meanwhile, and may never be without a ready Pod. ``-``
stands where a fault can't strike a change. All cells of a fault follow each other on one environment, in a
clone of its own in a temporary folder, beside whatever runs here; a cell that fails is followed by another
environment. Exit code 1 if a cell fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from bench.lab.clones import temporary_clone
from bench.lab.report import command_line, exit_code, say
from tests.e2e.cluster_changes import CHANGES, Change
from tests.e2e.fault_cells import Cell, Stage, run_cell
from tests.e2e.injected_faults import FAULTS, Fault

WIDTH = 150
LOST_SHOWN = 5
NAMES = "grow a pool/lost answers"


def chosen(only: Sequence[str] = ("",)) -> list[tuple[Change, Fault]]:
    """The cells whose name contains one of these texts, fault by fault, where the fault can strike."""
    return [
        (change, fault)
        for fault in FAULTS.values()
        for change in CHANGES.values()
        if any(text in f"{change.name}/{fault.name}" for text in only) and not fault.spares(change)
    ]


def measure(pairs: Sequence[tuple[Change, Fault]]) -> Iterator[Cell]:
    """Run cells one after the other."""
    with temporary_clone() as clone:
        clone.dev("doctor", check=False)  # the first command of a clone makes its Python environment
        stage = Stage(clone)
        for change, fault in pairs:
            cell = run_cell(stage, change, fault)
            say(f"{change.name}/{fault.name}: {in_words(cell)}")
            yield cell


def in_words(cell: Cell) -> str:
    """What came of a cell, in a line; what is wrong below it."""
    struck = f"struck {cell.struck} times, {cell.failed} runs failed"
    how = f"{cell.seconds:.0f} s, {struck}, {len(cell.lost)} requests lost"
    lost = [f"a request was lost after {why}" for why in cell.lost[:LOST_SHOWN]]
    return "\n    ".join([("✗ " if cell.problems else "✓ ") + how, *cell.problems, *lost])


def matrix(cells: Sequence[Cell]) -> Table:
    """The cells, a column for each change."""
    table = Table(box=None, title="All as wanted, and seconds until then", title_justify="left")
    found = {(cell.change, cell.fault): cell for cell in cells}
    columns = [name for name in CHANGES if any(cell.change == name for cell in cells)]
    table.add_column("fault", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", min_width=7)
    for fault in FAULTS.values():
        if any(cell.fault == fault.name for cell in cells):
            row = [_show(found.get((name, fault.name)), CHANGES[name], fault) for name in columns]
            table.add_row(fault.name, *row)
    return table


def _show(cell: Cell | None, change: Change, fault: Fault) -> str:
    if cell is None:
        return "-" if fault.spares(change) else ""
    return "✗" if cell.problems else f"✓ {cell.seconds:.0f}"


def report(cells: Sequence[Cell]) -> None:
    """Print the table, what is wrong, and a sum."""
    console = Console(width=max(WIDTH, Console().width), emoji=False)
    console.print(matrix(cells))
    for cell in cells:
        if cell.problems:
            console.print(f"✗ {cell.change}/{cell.fault}: {in_words(cell)}", markup=False)
    good = sum(not cell.problems for cell in cells)
    console.print(f"\n{good} of {len(cells)} ended well: as wanted, nothing doubled, nothing left")


def main() -> int:
    """The command."""
    parser = command_line(__doc__)
    which = 'cells whose "change/fault" contains it; may be repeated'
    parser.add_argument("--only", action="append", metavar="TEXT", help=which)
    arguments = parser.parse_args()
    pairs = chosen(arguments.only or [""])
    if not pairs:
        parser.error(f"no cell has {' or '.join(arguments.only)} in its name; names are like {NAMES}")
    return exit_code(lambda: compare(pairs, arguments))


def compare(pairs: Sequence[tuple[Change, Fault]], arguments: argparse.Namespace) -> bool:
    """Run cells and print them; whether all ended well."""
    cells = list(measure(pairs))
    if arguments.json:
        print(json.dumps([asdict(cell) for cell in cells], indent=1))
    else:
        report(cells)
    return not any(cell.problems for cell in cells)


if __name__ == "__main__":
    sys.exit(main())
