"""Requests of the CCM in an hour without changes: ``./dev bench idle``.

1,000 nodes, 20 load balancers with 2 ports and 25 targets each, defaults everywhere, no change for an hour;
every kubelet renews its status every five minutes. Ours: the whole CCM against the emulated cloud, with an
API server in memory, in a process whose clock jumps to the next timer, so that the hour takes seconds; the
hour begins after 15 minutes of the same kind.
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
