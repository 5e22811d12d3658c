"""Requests of the CCM in an hour in which one server is off: ``./dev bench shutdown``.

500 nodes in a project of 500 servers, no load balancers, defaults everywhere. One server is powered off; 50 s
later Kubernetes calls its node not ready; from then on counts how long the node lacks its shutdown taint. At
the end it is powered on: from when its node is ready counts how long it keeps the taint. The hour's calls are
all calls, those of the regular refresh of all nodes included. ``./dev bench idle`` says how the hour passes.
"""

import argparse
import sys

from bench.lab import hours
from bench.lab.report import Row, listed, main

SERVERS, CALLS, SECONDS = 500, 200, 15.0


async def measure(_arguments: argparse.Namespace) -> list[Row]:
    found = await hours.ours("shutdown", SERVERS)
    counts = found["counts"]
    return [
        Row(
            f"one node off for an hour, {SERVERS} servers",
            sum(counts.values()),
            CALLS,
            official="about 2,400, by formula",
            note=listed(counts),
        ),
        Row("until its shutdown taint", found["tainted"], SECONDS, "s", official="7.6 s"),
        Row("until the taint is gone, once it is ready", found["untainted"], SECONDS, "s"),
    ]


if __name__ == "__main__":
    sys.exit(main("A machine that is off", __doc__, measure, peer=False))
