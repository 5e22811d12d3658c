"""Rows of figures, the bound of each, and how they are printed."""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class BenchError(Exception):
    """A comparison can't be made; the text is for people."""


@dataclass(frozen=True)
class Row:
    """One figure."""

    what: str  # what was measured
    ours: float  # our figure
    bound: float | None = None  # what it may be at most; None = shown for information
    unit: str = "calls"  # of both
    peer: float | None = None  # the official CCM's figure from this run; None = there was none
    official: str = ""  # what the genuine binary (v1.35.0) gave elsewhere, or its formula, as a text
    note: str = ""  # how ours comes about

    @property
    def passed(self) -> bool:
        """Whether the bound holds."""
        return self.bound is None or self.ours <= self.bound


def table(title: str, rows: Sequence[Row]) -> str:
    """Rows for people."""
    head = ("what", "ours", "at most", "peer", "official v1.35.0", "verdict")
    lines: list[tuple[str, ...]] = [head]
    for row in rows:
        verdict = "" if row.bound is None else ("PASS" if row.passed else "FAIL")
        bound = "" if row.bound is None else _number(row.bound, row.unit)
        peer = "-" if row.peer is None else _number(row.peer, row.unit)
        lines.append((row.what, _number(row.ours, row.unit), bound, peer, row.official, verdict))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    left = {0, 4, 5}
    text = [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    notes = [f"  {row.what}: {row.note}" for row in rows if row.note]
    return "\n".join([title, *text, *notes, "PASS" if all(row.passed for row in rows) else "FAIL"])


def as_json(title: str, rows: Sequence[Row]) -> str:
    """Rows for programs."""
    items = [{**vars(row), "passed": row.passed} for row in rows]
    return json.dumps({"title": title, "rows": items, "passed": all(row.passed for row in rows)}, indent=1)


def peer_program(path: str) -> Path:
    """The official binary."""
    program = Path(path).resolve()
    if not program.is_file() or not os.access(program, os.X_OK):
        raise BenchError(
            f"--peer: {path} is not an executable file; give the path of an official "
            "hcloud-cloud-controller-manager binary, or leave --peer out"
        )
    return program


def command_line(description: str | None) -> argparse.ArgumentParser:
    """The parser of a comparison: it is called what a person types, and has what all of them understand."""
    parser = argparse.ArgumentParser(
        prog=f"./dev bench {Path(sys.argv[0]).stem.removeprefix('bench_')}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def main(
    title: str,
    description: str | None,
    measure: Callable[[argparse.Namespace], Coroutine[Any, Any, list[Row]]],
    options: Callable[[argparse.ArgumentParser], Any] = lambda _: None,
    *,
    peer: bool = True,
) -> int:
    """Parse the command line, measure, print; returns the exit code: 0 all bounds hold, 1 not, 2 misused."""
    parser = command_line(description)
    if peer:
        parser.add_argument(
            "--peer", metavar="PATH", help="also run this binary of the official CCM and show its figures"
        )
    options(parser)
    arguments = parser.parse_args()

    def compare() -> bool:
        if peer:
            arguments.peer = peer_program(arguments.peer) if arguments.peer else None
        rows = asyncio.run(measure(arguments))
        print(as_json(title, rows) if arguments.json else table(title, rows))
        return all(row.passed for row in rows)

    return exit_code(compare)


def exit_code(compare: Callable[[], bool]) -> int:
    """Run a comparison; returns 0 if all bounds hold, else 1; 2 if it can't be made, 130 if interrupted."""
    # Being terminated is like Ctrl-C: everything that was started is ended. A shell may have it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        return 0 if compare() else 1
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: interrupted; everything that was started has ended", file=sys.stderr)
        return 130


def say(text: str) -> None:
    """Tell what is going on, apart from the results."""
    print(f"• {text}", file=sys.stderr, flush=True)


def timed(run: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    started = time.monotonic()
    run()
    return time.monotonic() - started


def listed(counts: Mapping[str, int]) -> str:
    """Calls by operation, as a note."""
    return ", ".join(f"{n} x {name}" for name, n in sorted(counts.items()))


def _number(value: float, unit: str) -> str:
    whole = unit == "calls" or isinstance(value, int)
    text = f"{value:.0f}" if whole else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"{text} {unit}" if unit else text
