"""What becomes of every operation under every fault: ``./dev bench faults [--only TEXT]``.

Whatever goes wrong with the cloud, the CCM shall end where it should. Runs the cells of ``bench/fault_lab``:
each lets one thing go wrong (a row) while the CCM does one thing (a column) and then looks at everything: ✓
and the seconds until all was right, or ✗ and below the table what is missing or too much. Then SIGKILL after
every request of a creation. Exit code 1 if a cell fails.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict

import structlog
from rich.console import Console
from rich.table import Table

from bench.fault_lab import FAULTS, NOTHING, OPERATIONS, Cell, Kill, hurried, kill_everywhere, run_cells
from bench.lab.report import command_line

WIDTH = 150
KILLS = "create a load balancer/SIGKILL"


async def measure(only: str, *, kills: bool) -> tuple[list[Cell], list[Kill]]:
    """Run what was asked for."""
    pairs = [
        (operation, fault)
        for operation in OPERATIONS.values()
        for fault in (NOTHING, *FAULTS.values())
        if only in f"{operation.name}/{fault.name}"
    ]
    with hurried():
        cells = [cell async for cell in run_cells(pairs)]
    deaths = [kill async for kill in kill_everywhere()] if kills and only in KILLS else []
    return cells, sorted(deaths, key=lambda kill: kill.call)


def matrix(cells: Sequence[Cell], *, calls: bool) -> Table:
    """The cells, a column for each operation."""
    what = "requests to the cloud" if calls else "seconds"
    table = Table(box=None, title=f"Converged, and {what} until then", title_justify="left")
    operations = [name for name in OPERATIONS if any(cell.operation == name for cell in cells)]
    found = {(cell.operation, cell.fault): cell for cell in cells}
    table.add_column("fault", no_wrap=True)
    for name in operations:
        table.add_column(name, justify="right", min_width=9)
    for fault in (NOTHING.name, *FAULTS):
        row = [found.get((name, fault)) for name in operations]
        if any(row):
            table.add_row(fault, *("" if cell is None else _show(cell, calls=calls) for cell in row))
    return table


def _show(cell: Cell | Kill, *, calls: bool) -> str:
    if not cell.converged:
        return "✗"
    return f"✓ {cell.calls:4}" if calls else f"✓ {cell.seconds:5.2f}"


def deaths(kills: Sequence[Kill], *, calls: bool) -> Table:
    """The deaths, a row each."""
    what = "requests to the cloud" if calls else "seconds, start included,"
    table = Table(
        box=None,
        title=f"\nSIGKILL after each request of a creation; {what} of the next",
        title_justify="left",
    )
    for column in ("", "request", "converged"):
        table.add_column(column)
    for kill in kills:
        table.add_row(str(kill.call), kill.request, _show(kill, calls=calls))
    return table


def report(cells: Sequence[Cell], kills: Sequence[Kill], *, calls: bool) -> None:
    """Print tables, failures and a sum."""
    console = Console(width=max(WIDTH, Console().width), emoji=False)
    if cells:
        console.print(matrix(cells, calls=calls))
    if kills:
        console.print(deaths(kills, calls=calls))
    for cell in cells:
        if cell.problem:
            console.print(f"✗ {cell.operation}, {cell.fault}: {cell.problem}", markup=False)
    for kill in kills:
        if kill.problem:
            console.print(
                f"✗ SIGKILL after request {kill.call} ({kill.request}): {kill.problem}", markup=False
            )
    every = (*cells, *kills)
    good = sum(one.converged for one in every)
    console.print(f"\n{good} of {len(every)} ended well: all done, nothing doubled, lost or wrongly deleted")


def main() -> int:
    """The command."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--only", default="", metavar="TEXT", help='cells whose "operation/fault" contains it'
    )
    parser.add_argument("--calls", action="store_true", help="show requests instead of seconds")
    parser.add_argument("--no-kills", action="store_true", help="leave out the deaths")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    cells, kills = asyncio.run(measure(arguments.only, kills=not arguments.no_kills))
    if not cells and not kills:
        parser.error(f"no cell has {arguments.only!r} in its name; names are like {KILLS!r}")
    if arguments.json:
        print(json.dumps({"cells": [asdict(one) for one in cells], "kills": [asdict(one) for one in kills]}))
    else:
        report(cells, kills, calls=arguments.calls)
    return 0 if all(one.converged for one in (*cells, *kills)) else 1


if __name__ == "__main__":
    sys.exit(main())
