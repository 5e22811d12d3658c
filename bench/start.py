"""What the start of the process costs: ``./dev bench start [--from image|tree] [--nodes 10] [--peer PATH]``.

The CCM runs as in ./dev bench memory: as in a Pod, ours out of its image, against a real API server with
nodes and the emulated cloud with a server for each. Everything is measured in one run:

- CPU is user and system time from the start of the process until it is quiet; how long it takes until it
  lists servers is on the clock.
- The steps are of the same Python with the same files, each the median of some runs: the bare interpreter;
  what all imports need more; what the process needs more than that (settings, connections, first lists, a
  few quiet seconds). The serving certificate, which a process of its own makes, is beside that: the port is
  off here, as it is for the peer.
- Imports by package are shares of the time that ``python -X importtime`` tells; what a package imports of
  others counts as theirs.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping

from bench.lab.pod import Pod, make_pod, origin
from bench.lab.processes import cpu_seconds
from bench.lab.report import BenchError, Row, main, say
from bench.lab.stage import NODES, Stage, each, stage
from bench.lab.subject import OURS, Subject, running, subjects
from bench.memory import SMALL, node_of, quiet
from ccm.kube.objects import Node

BOUND = 0.35  # seconds of CPU
RUNS = 7
SECONDS = 120.0
SHOWN = 12
# As python -m ccm imports them; a bench of one that is left out would look better than it is.
IMPORTS = """
from ccm.startup import frozen_gc_imports
with frozen_gc_imports():
    import ccm.manager.command, ccm.hetzner
"""
CERTIFICATE = "from ccm.manager.serving.tls import make_certificate; make_certificate()"
_COST = """
import resource
for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
    used = resource.getrusage(who)
    print(used.ru_utime + used.ru_stime)
"""
_IMPORTED = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+([\w.]+)")


def cost(pod: Pod, program: str) -> tuple[float, float]:
    """Seconds of CPU that a program needs in our Python, and those of its children: medians of some runs."""
    used = [_run(pod, ("-c", program + _COST)).stdout.split() for _ in range(RUNS)]
    return statistics.median(float(one[0]) for one in used), statistics.median(float(one[1]) for one in used)


def shares(text: str, own: frozenset[str] = frozenset({"ccm"})) -> dict[str, float]:
    """The share of each package in all imports.

    Args:
        text: What ``-X importtime`` has written.
        own: Packages that are told apart by their folders.
    """
    times: Counter[str] = Counter()
    for microseconds, name in _IMPORTED.findall(text):
        parts = name.split(".")
        times[".".join(parts[:2]) if parts[0] in own else parts[0]] += int(microseconds)
    whole = sum(times.values())
    return {name: used / whole for name, used in times.most_common()}


def _run(pod: Pod, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": "/usr/bin:/bin", **pod.environment()}
    command = pod.command([pod.python, *arguments])
    try:
        return subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        raise BenchError(f"{' '.join(arguments)[:60]}: {error.stderr}") from error


async def started(on: Stage, subject: Subject, pod: Pod) -> tuple[float, float]:
    """Seconds of CPU from the start until it is quiet, and on the clock until it lists servers."""
    on.cloud.forget()
    began = time.monotonic()
    with running(subject, on, network=False, pod=pod) as process:
        await on.until("servers are listed", lambda: bool(on.cloud.counts().get("GET /servers")), seconds=300)
        listed = time.monotonic() - began
        await quiet(on, process, 1)
        return cpu_seconds(process.pid), listed


async def measure(arguments: argparse.Namespace) -> list[Row]:
    """All rows."""
    async with stage() as on:
        pod = await make_pod(on.api, on.url, on.authority, on.directory, image=arguments.origin == "image")
        added = await on.add_servers([f"node-{index:04}" for index in range(arguments.nodes)], private=False)
        await each(list(enumerate(added)), lambda one: on.api.create(NODES, node_of(one[1], one[0]), Node))
        await on.untouched()
        found = {one.name: await started(on, one, pod) for one in subjects(arguments.peer)}
        say(f"running the parts of the start, each {RUNS} times")
        bare, _ = await asyncio.to_thread(cost, pod, "")
        imports, _ = await asyncio.to_thread(cost, pod, IMPORTS)
        _, certificate = await asyncio.to_thread(cost, pod, CERTIFICATE)
        trace = await asyncio.to_thread(_run, pod, ("-X", "importtime", "-c", IMPORTS))
    return rows(arguments.nodes, pod.place, found, (bare, imports, certificate), shares(trace.stderr))


def rows(
    nodes: int,
    place: str,
    found: Mapping[str, tuple[float, float]],
    steps: tuple[float, float, float],
    packages: Mapping[str, float],
) -> list[Row]:
    """The table.

    Args:
        nodes: How many there were.
        place: Where ours ran.
        found: CPU and time on the clock by subject.
        steps: CPU of the interpreter, of that with all imports, and of a certificate.
        packages: Share of each in the imports.
    """
    cpu, wall = found[OURS.name]
    peer = found.get("peer")
    bare, imports, certificate = steps
    shown = ", ".join(f"{name} {share:.0%}" for name, share in list(packages.items())[:SHOWN])
    return [
        Row(f"CPU since the start, {nodes} nodes", cpu, BOUND, "s", peer and peer[0], "0.05 s", place),
        Row("— the bare interpreter", bare, unit="s"),
        Row("— imports", imports - bare, unit="s", note=shown),
        Row("— everything else", cpu - imports, unit="s"),
        Row("as many times the bare interpreter", cpu / bare, unit=""),
        Row("a serving certificate, where none is given", certificate, unit="s", note="beside the above"),
        Row("time until servers are listed", wall, unit="s", peer=peer and peer[1]),
    ]


def options(parser: argparse.ArgumentParser) -> None:
    """Arguments of this comparison."""
    parser.add_argument("--nodes", type=int, default=SMALL, help=f"nodes of the cluster ({SMALL})")
    origin(parser)


if __name__ == "__main__":
    sys.exit(main("The start", __doc__, measure, options))
