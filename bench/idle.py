"""Requests of the CCM in an hour without changes: ``./dev bench idle``.

The cloud has 1,000 nodes, and 20 load balancers with 2 ports and 25 targets each. All settings have their
defaults. Each kubelet updates the status of its Node every five minutes, and nothing else changes.

The CCM sends its requests to the emulated cloud. The API server is simulated in memory. The clock of the
CCM's process advances to the next timer when the CCM is idle, so the hour takes seconds. The measurement
starts after 15 simulated minutes.
"""

import argparse
import sys

from bench.lab import hours
from bench.lab.report import Row, listed, main

SERVERS, BALANCERS, TARGETS, BOUND = 1000, 20, 25, 150


async def measure(_arguments: argparse.Namespace) -> list[Row]:
    counts = (await hours.ours("idle", SERVERS))["counts"]
    return [
        Row(
            f"steady state, {SERVERS} nodes, {BALANCERS} load balancers, one hour",
            sum(counts.values()),
            BOUND,
            official="240, by formula",
            note=listed(counts),
        )
    ]


if __name__ == "__main__":
    sys.exit(main("A quiet hour", __doc__, measure, peer=False))
