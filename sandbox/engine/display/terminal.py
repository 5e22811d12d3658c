"""Shows a run as the Pulumi CLI does: plain lines, or on a terminal a live table."""

from __future__ import annotations

import math
import sys
import textwrap
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from sandbox.engine.display.operation import Op
from sandbox.engine.display.outputs import output_lines
from sandbox.engine.display.rows import LOOKS, Record, Row, changed
from sandbox.engine.state import graph

# What the summary counts, in the genuine CLI's order. What a run finds changed before it begins is no work of
# its own: only 'refresh' counts that.
_SUMMARY = (
    (Op.CREATE, "created", "to create"),
    (Op.UPDATE, "updated", "to update"),
    (Op.DELETE, "deleted", "to delete"),
    (Op.REPLACE, "replaced", "to replace"),
    (Op.IMPORT, "imported", "to import"),
    (Op.DISCARD, "left as they are", "to leave as they are"),
)
_REFRESHED = ((Op.REFRESH, "updated", "to update"), (Op.GONE, "missing", "missing"))


def duration(seconds: float) -> str:
    """How long a run took, as the CLI shows it: rounded up, ``21s``, ``1m5s``."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest}s"


def short_type(kind: str) -> str:
    """A type as the CLI shows it: ``hcloud:index/sshKey:SshKey`` is ``hcloud:index:SshKey``."""
    package, _, rest = kind.partition(":")
    module, _, name = rest.rpartition(":")
    if "/" in module and module.split("/")[-1].lower() == name.lower():
        module = module.rsplit("/", 1)[0]
    return f"{package}:{module}:{name}"


class Display:
    """Listens to a run and prints it.

    Args:
        out: Where to print.
        preview: Nothing is really done.
        live: Redraw a table on the terminal instead of printing lines.
        verbose: Show debug messages.
        refresh: The run is nothing but a refresh.
        colored: The table may have colors.
    """

    def __init__(
        self,
        out: TextIO = sys.stdout,
        *,
        preview: bool = False,
        live: bool = False,
        verbose: bool = False,
        refresh: bool = False,
        colored: bool = True,
    ) -> None:
        self._out = out
        self._preview = preview
        self._verbose = verbose
        self._counted = _SUMMARY + (_REFRESHED if refresh else ())
        self._lock = threading.RLock()
        self._start = time.monotonic()
        self.record = Record()
        self._table: Any = None
        if live:
            from sandbox.engine.display.live import LiveTable  # noqa: PLC0415  rich is slow to load

            self._table = LiveTable(self.record, preview=preview, colored=colored)

    # --- Listener

    def started(self, urn: str, op: Op, keys: Sequence[str] = (), *, instant: bool = False) -> None:
        """An operation begins."""
        if graph.is_default_provider(urn):
            return
        with self._lock:
            row = Row(urn, op, tuple(keys), instant=instant, began=time.monotonic())
            self.record.rows[_key(urn, op)] = row
            if row.is_change and not instant and not self._preview:
                self._line(row, "0s")

    def finished(self, urn: str, op: Op) -> None:
        """An operation is done."""
        if graph.is_default_provider(urn):
            return
        with self._lock:
            row = self.record.rows[_key(urn, op)]
            row.ended = time.monotonic()
            self.record.counts[op] = self.record.counts.get(op, 0) + 1
            if row.is_change:
                self._line(row)

    def failed(self, urn: str, op: Op) -> None:
        """An operation failed."""
        if graph.is_default_provider(urn):
            return
        with self._lock:
            row = self.record.rows[_key(urn, op)]
            row.ended, row.failed = time.monotonic(), True
            self._line(row)

    def phase(self, text: str) -> None:
        """Show which part of the run is going on."""
        self.record.phase = text

    def notice(self, text: str) -> None:
        """Print a message at once, above everything that is still going on."""
        with self._lock:
            self._table.say(text) if self._table is not None else self._print(text)

    def diagnostic(self, severity: str, message: str, urn: str = "") -> None:
        """Print a message at once, and keep it for the end."""
        if severity == "debug" and not self._verbose:
            return
        with self._lock:
            self.record.diagnostics.append((severity, message, urn))
            if self._table is None and severity != "error":
                label = "" if severity == "info" else f"{severity}: "
                self._print(textwrap.indent(f"{_who(urn)}{label}{message}", "    "))

    def status(self, urn: str, message: str) -> None:
        """Show what an operation waits for."""
        with self._lock:
            row = self.record.rows.get(urn)
            if row is None or row.note == message:
                return
            row.note = message
            if self._table is None and message:
                self._print(f"    {_who(urn)}{message}")

    # --- the end

    def close(
        self,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        *,
        failed: bool,
        show_secrets: bool,
        outputs: bool = True,
    ) -> None:
        """Print diagnostics, outputs and the summary; what went wrong is the last thing.

        Args:
            before: The stack's outputs before the run.
            after: Its outputs now.
            failed: The run failed.
            show_secrets: Show secret outputs.
            outputs: Show outputs at all.
        """
        with self._lock:
            if self._table is not None:
                self._table.stop()
            if failed:
                self._failure()
                return
            self._diagnostics()
            lines = output_lines(before, after, show_secrets=show_secrets) if outputs else []
            if lines:
                self._print("\nOutputs:")
                self._print("\n".join(lines))
            self._summary()

    def _failure(self) -> None:
        """What was done all the same, then why it went no further."""
        if not self._preview and any(self.record.counts.get(op) for op, *_ in self._counted):
            self._summary()
            self._print("What was done is saved, and the next run goes on from here.")
        elif self._preview:
            self._print("\nThe preview failed; nothing was changed.")
        self._diagnostics()

    def _diagnostics(self) -> None:
        shown = [item for item in self.record.diagnostics if item[0] == "error" or self._table is not None]
        if not shown:
            return
        self._print("\nDiagnostics:")
        for severity, message, urn in shown:
            if urn:
                self._print(f"  {short_type(graph.type_of(urn))} ({graph.name_of(urn)}):")
            label = "" if severity == "info" else f"{severity}: "
            for number, line in enumerate(message.splitlines() or [""]):
                after = "  " if label else ""
                self._print(f"    {after if number else label}{line}")

    def _summary(self) -> None:
        counts = self.record.counts
        done = [(op, counts[op], words) for op, *words in self._counted if counts.get(op)]
        self._print("\nResources:")
        for op, count, (past, planned) in done:
            self._print(f"    {LOOKS[op].symbol}{count} {planned if self._preview else past}")
        changes = [f"{sum(count for _, count, _ in done)} changes"] if len(done) > 1 else []
        unchanged = counts.get(Op.SAME, 0)
        pieces = changes + ([f"{unchanged} unchanged"] if unchanged or not done else [])
        if pieces:
            self._print("    " + ". ".join(pieces))
        if not self._preview:
            self._print(f"\nDuration: {duration(time.monotonic() - self._start)}")

    def abort(self) -> None:
        """Leave the terminal in order when a run could not start."""
        if self._table is not None:
            self._table.stop()

    # --- inside

    def _line(self, row: Row, age: str | None = None) -> None:
        if self._table is not None:
            return
        status = self.record.status(row, time.monotonic(), preview=self._preview)
        if age is not None:
            status = f"{LOOKS[row.op].doing} ({age}) {changed(row.keys)}"
        self._print(
            f" {LOOKS[row.op].symbol} {short_type(graph.type_of(row.urn))} {graph.name_of(row.urn)} {status}"
        )

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


def _key(urn: str, op: Op) -> str:
    """Of a row: what goes and what replaces it are two."""
    return urn if op is not Op.DELETE_REPLACED else urn + " (original)"


def _who(urn: str) -> str:
    return f"{short_type(graph.type_of(urn))} ({graph.name_of(urn)}): " if urn else ""
