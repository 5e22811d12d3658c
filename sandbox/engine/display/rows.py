"""What a run has done so far, resource by resource, with the symbols and words in which it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sandbox.engine.display.operation import Op


class Look(NamedTuple):
    """How an operation is shown: its symbol, its name while it goes on and afterwards, a color of rich."""

    symbol: str
    doing: str
    done: str
    color: str = ""


LOOKS = {
    Op.SAME: Look("  ", "", "unchanged"),
    Op.CREATE: Look("+ ", "creating", "created", "green"),
    Op.UPDATE: Look("~ ", "updating", "updated", "yellow"),
    Op.REPLACE: Look("+-", "replacing", "replaced", "magenta"),
    Op.DELETE: Look("- ", "deleting", "deleted", "red"),
    Op.DELETE_REPLACED: Look("--", "deleting original", "deleted original", "red"),
    Op.GONE: Look("- ", "missing", "missing", "red"),
    Op.DISCARD: Look("< ", "leaving as it is", "left as it is"),
    Op.IMPORT: Look("= ", "importing", "imported", "green"),
    Op.REFRESH: Look("~ ", "refreshing", "refreshed"),
}


@dataclass
class Row:
    """What the display knows about one resource."""

    urn: str
    op: Op
    keys: tuple[str, ...] = ()
    instant: bool = False
    began: float = 0.0
    ended: float | None = None
    failed: bool = False
    note: str = ""

    @property
    def is_change(self) -> bool:
        """Tell whether a person wants to see it."""
        return self.op is not Op.SAME or self.failed


@dataclass
class Record:
    """Everything that happened in a run, for the display and the summary."""

    rows: dict[str, Row] = field(default_factory=dict)
    counts: dict[Op, int] = field(default_factory=dict)
    diagnostics: list[tuple[str, str, str]] = field(default_factory=list)
    phase: str = "Starting"

    def status(self, row: Row, now: float, *, preview: bool) -> str:
        """A row's status as text."""
        look = LOOKS[row.op]
        if preview:
            text = "" if row.op is Op.SAME else str(row.op)
        elif row.failed:
            text = f"**{look.doing} failed**"
        elif row.ended is None:
            text = f"{look.doing} ({now - row.began:.0f}s)"
        elif row.op is Op.SAME:
            text = ""
        elif row.instant:
            text = look.done
        else:
            text = f"{look.done} ({elapsed(row.ended - row.began)})"
        return " ".join(part for part in (text, changed(row.keys), row.note) if part)


def elapsed(seconds: float) -> str:
    """How long an operation took, as the CLI shows it: ``0.36s``, ``5s``."""
    return f"{seconds:.2f}s" if seconds < 1 else f"{seconds:.0f}s"


def changed(keys: Sequence[str]) -> str:
    """Which properties change, as the CLI shows it."""
    return f"[diff: ~{','.join(keys)}]" if keys else ""
