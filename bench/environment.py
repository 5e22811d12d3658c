"""``./dev bench environment``: the figures of the whole environment, each measured once, as a table.

Works in a clone of its own in a temporary folder, beside whatever runs here. ``--json`` prints JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sandbox import leftovers
from tests.e2e.conftest import Clone, copy_tree

WORKERS = 2
CCM_MEMORY = "awk '/^Rss:/{print $2}' /proc/$(pgrep -f \"[-]m ccm\" | head -1)/smaps_rollup"


def timed(run: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    started = time.monotonic()
    run()
    return time.monotonic() - started


def measure(clone: Clone) -> list[tuple[str, str, str]]:
    """Rows of (what, measured, wanted)."""
    site = clone.site
    up = timed(lambda: clone.dev("up", "--workers", str(WORKERS)))
    memory = int(re.findall(r"\d+", clone.dev("ssh", "control", CCM_MEMORY).stdout)[-1]) / 1024
    again = timed(lambda: clone.pulumi("up", "--stack", "local", "--yes", "--skip-preview"))
    down = timed(lambda: clone.dev("down"))
    return [
        (f"./dev up, control + {WORKERS} workers, all initialised", f"{up:.1f} s", "≤ 60 s"),
        ("pulumi up again", f"{again:.1f} s", "≤ 5 s"),
        ("./dev down", f"{down:.1f} s", "≤ 20 s"),
        ("left behind", str(len(leftovers.find(site))), "0"),
        ("idle CCM Pod, RSS", f"{memory:.0f} MiB", "≤ 75 MiB"),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clone = copy_tree(Path(folder))
        try:
            rows = measure(clone)
        finally:
            clone.dev("down", "--force", check=False)
    if arguments.json:
        print(json.dumps([dict(zip(("what", "measured", "wanted"), row, strict=True)) for row in rows]))
        return
    table = Table(box=None)
    for column in ("what", "measured", "wanted"):
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    Console(emoji=False).print(table)


if __name__ == "__main__":
    main()
