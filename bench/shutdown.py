"""Requests of the CCM in an hour in which one server is off: ``./dev bench shutdown``.

The cluster has 500 nodes, the project has 500 servers, and there are no load balancers. All settings have
their defaults. One server is powered off, and after 50 s, Kubernetes marks its Node as not ready. The table
shows these figures:

- the time from then until the Node has its shutdown taint
- the time until the taint is removed, after the server is powered on and the Node is ready
- all requests of the hour, including the regular refresh of all nodes

``./dev bench idle --help`` explains how the hour is simulated.
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
