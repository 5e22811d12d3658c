"""Shows a run as the Pulumi CLI does: plain lines, or on a terminal a live tree."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from sandbox.engine import graph
from sandbox.engine.steps import Op
from sandbox.engine.values import UNKNOWN, is_secret

SYMBOLS = {
    Op.SAME: "  ",
    Op.CREATE: "+ ",
    Op.UPDATE: "~ ",
    Op.REPLACE: "+-",
    Op.DELETE: "- ",
    Op.DELETE_REPLACED: "--",
    Op.DISCARD: "< ",
    Op.READ: "> ",
    Op.IMPORT: "= ",
    Op.REFRESH: "~ ",
}
_VERBS = {
    Op.CREATE: ("creating", "created"),
    Op.UPDATE: ("updating", "updated"),
    Op.REPLACE: ("replacing", "replaced"),
    Op.DELETE: ("deleting", "deleted"),
    Op.DELETE_REPLACED: ("deleting original", "deleted original"),
    Op.DISCARD: ("discarding", "discarded"),
    Op.READ: ("reading", "read"),
    Op.IMPORT: ("importing", "imported"),
    Op.REFRESH: ("refreshing", "refreshed"),
    Op.SAME: ("", "unchanged"),
}
_SUMMARY = (
    (Op.CREATE, "created", "to create"),
    (Op.IMPORT, "imported", "to import"),
    (Op.UPDATE, "updated", "to update"),
    (Op.REPLACE, "replaced", "to replace"),
    (Op.DELETE, "deleted", "to delete"),
    (Op.READ, "read", "to read"),
    (Op.REFRESH, "changed by others", "changed by others"),
    (Op.DISCARD, "removed from the state", "to remove from the state"),
)


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


@dataclass
class Record:
    """Everything that happened in a run, for the display and the summary."""

    rows: dict[str, Row] = field(default_factory=dict)
    counts: dict[Op, int] = field(default_factory=dict)
    diagnostics: list[tuple[str, str, str]] = field(default_factory=list)

    def status(self, row: Row, now: float, *, preview: bool) -> str:
        """A row's status as text."""
        verb = _VERBS[row.op]
        if preview:
            text = "" if row.op is Op.SAME else str(row.op)
        elif row.failed:
            text = f"{verb[0]} failed"
        elif row.ended is None:
            text = f"{verb[0]} ({now - row.began:.0f}s)"
        elif row.op is Op.SAME:
            text = ""
        elif row.instant:
            text = verb[1]
        else:
            text = f"{verb[1]} ({row.ended - row.began:.2f}s)"
        shown = f"[diff: {','.join(_mark(row.op) + key for key in row.keys)}]" if row.keys else ""
        return " ".join(part for part in (text, shown, row.note) if part)


def _mark(op: Op) -> str:
    return "+-" if op is Op.REPLACE else "~"


def short_type(kind: str) -> str:
    """A type as the CLI shows it: `hcloud:index/sshKey:SshKey` is `hcloud:index:SshKey`."""
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
        live: Redraw a tree on the terminal instead of printing lines.
        verbose: Show debug messages.
    """

    def __init__(
        self, out: TextIO = sys.stdout, *, preview: bool = False, live: bool = False, verbose: bool = False
    ) -> None:
        self._out = out
        self._preview = preview
        self._verbose = verbose
        self._lock = threading.RLock()
        self._start = time.monotonic()
        self.record = Record()
        self._tree: Any = None
        if live:
            from sandbox.engine.display_live import LiveTree  # noqa: PLC0415  rich is slow to load

            self._tree = LiveTree(self.record, preview=preview)

    # --- Listener

    def started(self, urn: str, op: Op, keys: Sequence[str] = (), *, instant: bool = False) -> None:
        """An operation begins."""
        with self._lock:
            row = Row(urn, op, tuple(keys), instant=instant, began=time.monotonic())
            self.record.rows[urn if op is not Op.DELETE_REPLACED else urn + " (original)"] = row
            if not instant and not self._preview:
                self._line(row, "0s")

    def finished(self, urn: str, op: Op) -> None:
        """An operation is done."""
        with self._lock:
            row = self._row(urn, op)
            row.ended = time.monotonic()
            self.record.counts[op] = self.record.counts.get(op, 0) + 1
            if op is not Op.SAME:
                self._line(row)

    def failed(self, urn: str, op: Op) -> None:
        """An operation failed."""
        with self._lock:
            row = self._row(urn, op)
            row.ended, row.failed = time.monotonic(), True
            self._line(row)

    def diagnostic(self, severity: str, message: str, urn: str = "") -> None:
        """Print a message at once, and keep it for the end."""
        if severity == "debug" and not self._verbose:
            return
        with self._lock:
            self.record.diagnostics.append((severity, message, urn))
            if self._tree is None and severity != "error":
                label = "" if severity == "info" else f"{severity}: "
                self._print(f"    {_who(urn)}{label}{message}")

    def status(self, urn: str, message: str) -> None:
        """Show what an operation waits for."""
        with self._lock:
            row = self.record.rows.get(urn)
            if row is None or row.note == message:
                return
            row.note = message
            if self._tree is None and message:
                self._print(f"    {_who(urn)}{message}")

    # --- the end

    def close(
        self, outputs: Mapping[str, Any], *, failed: bool, show_secrets: bool, changed: bool = True
    ) -> None:
        """Print diagnostics, outputs and the summary."""
        with self._lock:
            if self._tree is not None:
                self._tree.stop()
            self._diagnostics()
            if outputs and changed:
                self._print("\nOutputs:")
                for key in sorted(outputs):
                    self._print(f"    {key}: {format_value(outputs[key], show_secrets=show_secrets)}")
            self._summary(failed=failed)

    def _diagnostics(self) -> None:
        shown = [item for item in self.record.diagnostics if item[0] == "error" or self._tree is not None]
        if not shown:
            return
        self._print("\nDiagnostics:")
        for severity, message, urn in shown:
            if urn:
                self._print(f"  {short_type(graph.type_of(urn))} ({graph.name_of(urn)}):")
            label = "" if severity == "info" else f"{severity}: "
            for number, line in enumerate(message.splitlines() or [""]):
                self._print(f"    {label if number == 0 else '  '}{line}")

    def _summary(self, *, failed: bool) -> None:
        counts = self.record.counts
        self._print("\nResources:")
        changes = 0
        for op, done, planned in _SUMMARY:
            if counts.get(op):
                changes += counts[op]
                self._print(f"    {SYMBOLS[op].strip()} {counts[op]} {planned if self._preview else done}")
        unchanged = counts.get(Op.SAME, 0)
        if unchanged or not changes:
            self._print(f"    {unchanged} unchanged")
        if failed and self._preview:
            self._print("    the preview failed; nothing was changed")
        elif failed:
            self._print("    the run failed; what it did is saved, and the next run goes on from here")
        self._print(f"\nDuration: {time.monotonic() - self._start:.1f}s")

    def abort(self) -> None:
        """Leave the terminal in order when a run could not start."""
        if self._tree is not None:
            self._tree.stop()

    # --- inside

    def _row(self, urn: str, op: Op) -> Row:
        return self.record.rows[urn if op is not Op.DELETE_REPLACED else urn + " (original)"]

    def _line(self, row: Row, age: str | None = None) -> None:
        if self._tree is not None:
            return
        status = self.record.status(row, time.monotonic(), preview=self._preview)
        if age is not None:
            shown = f" [diff: {','.join(_mark(row.op) + key for key in row.keys)}]" if row.keys else ""
            status = f"{_VERBS[row.op][0]} ({age}){shown}"
        self._print(
            f" {SYMBOLS[row.op]} {short_type(graph.type_of(row.urn))} {graph.name_of(row.urn)} {status}"
        )

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


def _who(urn: str) -> str:
    return f"{short_type(graph.type_of(urn))} ({graph.name_of(urn)}): " if urn else ""


def format_value(value: Any, *, show_secrets: bool) -> str:
    """An output as text; secrets are hidden unless asked for."""
    if is_secret(value):
        return format_value(value["value"], show_secrets=True) if show_secrets else "[secret]"
    if value == UNKNOWN:
        return "[unknown]"
    if isinstance(value, dict | list):
        return json.dumps(hide(value, show_secrets=show_secrets), indent=4).replace("\n", "\n    ")
    return json.dumps(value)


def hide(value: Any, *, show_secrets: bool) -> Any:
    """A tree with its secrets replaced by `[secret]`, or without their marks."""
    if is_secret(value):
        return hide(value["value"], show_secrets=True) if show_secrets else "[secret]"
    if value == UNKNOWN:
        return "[unknown]"
    if isinstance(value, dict):
        return {key: hide(part, show_secrets=show_secrets) for key, part in value.items()}
    if isinstance(value, list):
        return [hide(part, show_secrets=show_secrets) for part in value]
    return value
