"""An hour in seconds: our CCM on an event loop whose clock jumps when nothing is in progress.

Run as ``python -m bench.lab.hour SCENARIO BASE``, in a process of its own, because ``time.monotonic`` is
replaced before the CCM is imported. The CCM is whole: flags, environment, the manager and its controllers,
and its requests go over the network to the emulated cloud at BASE; while one is on its way, the clock stands
still. The API server is the one in memory. Prints figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from bench.lab.clock import Clock, run


def main() -> int:
    """Run a scenario of :mod:`bench.lab.quiet`; see the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario")
    parser.add_argument("base")
    arguments = parser.parse_args()
    clock = Clock()
    time.monotonic = clock.monotonic
    from bench.lab import quiet  # noqa: PLC0415  it imports the CCM

    print(json.dumps(run(clock, quiet.SCENARIOS[arguments.scenario](arguments.base))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
