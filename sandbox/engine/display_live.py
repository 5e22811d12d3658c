"""The live tree on a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table

from sandbox.engine import graph
from sandbox.engine.steps import Op

if TYPE_CHECKING:
    from sandbox.engine.display import Record, Row

_COLORS = {
    Op.CREATE: "green",
    Op.UPDATE: "yellow",
    Op.REPLACE: "magenta",
    Op.DELETE: "red",
    Op.DELETE_REPLACED: "red",
    Op.DISCARD: "red",
    Op.READ: "cyan",
    Op.IMPORT: "green",
}


class LiveTree:
    """Redraws the resources of a run, a few times a second, until stopped."""

    def __init__(self, record: Record, *, preview: bool) -> None:
        self._record = record
        self._preview = preview
        self._live = Live(self, console=Console(), refresh_per_second=8, vertical_overflow="ellipsis")
        self._live.start()

    def stop(self) -> None:
        """Draw a last time and leave the tree on the screen."""
        self._live.vertical_overflow = "visible"
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The tree as it is now; while it does not fit, only what is not finished."""
        from sandbox.engine.display import SYMBOLS, short_type  # noqa: PLC0415  they import each other

        now = time.monotonic()
        rows = list(self._record.rows.values())
        if self._live.vertical_overflow != "visible" and len(rows) > console.size.height - 4:
            rows = [row for row in rows if row.ended is None or row.failed][: console.size.height - 4]
        table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold blue")
        table.add_column("", width=2, no_wrap=True)
        for title in ("Type", "Name", "Status"):
            table.add_column(title, no_wrap=True, overflow="ellipsis")
        for row, depth in _nested(rows):
            style = "red" if row.failed else _COLORS.get(row.op, "dim")
            kind = "   " * depth + short_type(graph.type_of(row.urn))
            status = self._record.status(row, now, preview=self._preview)
            table.add_row(
                SYMBOLS[row.op], kind, graph.name_of(row.urn), status.replace("[", "\\["), style=style
            )
        yield table


def _nested(rows: list[Row]) -> list[tuple[Row, int]]:
    """Rows with their depth: as many types as their URN's chain has."""
    return [(row, min(row.urn.split("::")[2].count("$") + (row.op is not None), 6)) for row in rows]
