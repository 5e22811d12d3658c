"""What the whole environment takes, each figure measured once: ``./dev bench environment``.

Works in a clone of its own in a temporary folder, beside whatever runs here.
"""

from __future__ import annotations

import argparse
import re
import sys

from bench.lab.clones import temporary_clone
from bench.lab.report import Row, main
from bench.lab.stopwatch import timed
from sandbox import leftovers
from tests.e2e.conftest import Clone

WORKERS = 2
CCM_MEMORY = "awk '/^Rss:/{print $2}' /proc/$(pgrep -f \"[-]m ccm\" | head -1)/smaps_rollup"


async def measure(_arguments: argparse.Namespace) -> list[Row]:
    """All rows."""
    with temporary_clone() as clone:
        return rows(clone)


def rows(clone: Clone) -> list[Row]:
    """Bring an environment up, and take it down."""
    site = clone.site
    up = timed(lambda: clone.dev("up", "--workers", str(WORKERS)))
    memory = int(re.findall(r"\d+", clone.dev("ssh", "control", CCM_MEMORY).stdout)[-1]) / 1024
    again = timed(lambda: clone.pulumi("up", "--stack", "local", "--yes", "--skip-preview"))
    down = timed(lambda: clone.dev("down"))
    return [
        Row(f"./dev up, control + {WORKERS} workers, all initialised", up, 60, "s"),
        Row("pulumi up again", again, 5, "s"),
        Row("./dev down", down, 20, "s"),
        Row("left behind", len(leftovers.find(site)), 0, ""),
        Row("idle CCM Pod, RSS", memory, 75, "MiB"),
    ]


if __name__ == "__main__":
    sys.exit(main("The whole environment", __doc__, measure, peer=False))
