"""The live table on a terminal."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from sandbox.engine.display.rows import LOOKS, Record, Row
from sandbox.engine.state import graph

_LEAST = 12  # characters that type and name have at least, each
_DEEPEST = 2  # levels of the tree that are shown by indentation


class LiveTable:
    """Redraws the resources of a run, a few times a second, until stopped."""

    def __init__(
        self, record: Record, *, preview: bool, console: Console | None = None, colored: bool = True
    ) -> None:
        self._record = record
        self._preview = preview
        self._began = time.monotonic()
        self._ended = False
        colors = "auto" if colored else None
        console = console or Console(emoji=False, highlight=False, color_system=colors)
        self._live = Live(self, console=console, refresh_per_second=8, vertical_overflow="ellipsis")
        self._live.start()

    def say(self, text: str) -> None:
        """Print a message at once, above the table."""
        self._live.console.print(Text(text))

    def stop(self) -> None:
        """Draw a last time, only what has changed, and leave it on the screen."""
        self._ended = True
        self._live.vertical_overflow = "visible"
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table as it is now; while it does not fit, only what is not finished."""
        now = time.monotonic()
        rows = [row for row in list(self._record.rows.values()) if row.is_change]
        room = console.size.height - 4
        if not self._ended and len(rows) > room:
            rows = [row for row in rows if row.ended is None or row.failed][:room]
        cells = [self._cells(row, now) for row in rows]
        for lines, row in zip(layout(cells, options.max_width), rows, strict=True):
            yield Text("\n".join(lines), style="red" if row.failed else LOOKS[row.op].color)
        if not self._ended:
            yield Text(f"{self._record.phase} … ({now - self._began:.0f}s)", style="bold blue")

    def _cells(self, row: Row, now: float) -> Cells:
        depth = min(row.urn.split("::")[2].count("$"), _DEEPEST)
        status = self._record.status(row, now, preview=self._preview)
        kind = "  " * depth + brief_type(graph.type_of(row.urn))
        return Cells(LOOKS[row.op].symbol, kind, graph.name_of(row.urn), status)


class Cells(NamedTuple):
    """What is in one row of the table."""

    symbol: str
    kind: str
    name: str
    status: str


def brief_type(kind: str) -> str:
    """Package and name of a type: ``hcloud:index/server:Server`` is ``hcloud:Server``.

    A dynamic resource is its program's: ``pulumi-python:dynamic/infra:Boot`` is ``infra:Boot``.
    """
    package, _, rest = kind.partition(":")
    module, _, name = rest.rpartition(":")
    if package == "pulumi-python" and "/" in module:
        package = module.split("/", 1)[1]
    return f"{package}:{name}"


def layout(rows: Sequence[Cells], width: int) -> list[list[str]]:
    """Rows as lines of at most so many characters.

    Types and names are shortened where there is no room; a status never is, it goes on in the next line.

    Args:
        rows: What is in them.
        width: Of the terminal, in characters.
    """
    if not rows:
        return []
    room = max(width - len("+- ") - 2, 3 * _LEAST)
    statuses = min(max(len(row.status) for row in rows), room - 2 * _LEAST)
    kinds, names = (max(len(cell) for cell in column) for column in list(zip(*rows, strict=True))[1:3])
    names = min(names, max(_LEAST, room - statuses - kinds, (room - statuses) // 2))
    kinds = min(kinds, room - statuses - names)
    return [
        _lines(f"{row.symbol} {_cut(row.kind, kinds)} {_cut(row.name, names)} ", row.status, statuses)
        for row in rows
    ]


def _cut(text: str, width: int) -> str:
    return f"{text:<{width}}" if len(text) <= width else text[: width - 1] + "…"


def _lines(beginning: str, status: str, width: int) -> list[str]:
    first, *others = textwrap.wrap(status, max(width, 1)) or [""]
    return [(beginning + first).rstrip(), *(" " * len(beginning) + line for line in others)]
