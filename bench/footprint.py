"""Memory and CPU of an idle sandbox: ``./dev bench footprint [--seconds 60] [--services 10]``.

Measures the running sandbox of this clone. Create it with ``./dev up``, and don't use it for two minutes.

- Memory is the proportional set size of each program. Shared pages are divided among the processes.
- CPU is the share of one core during --seconds.
- At the end, the benchmark creates --services Services without endpoints, measures the CPU of their load
  balancers, and deletes the Services.

The limits apply to a sandbox with one control server and two workers.
"""

import argparse
import asyncio
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import CalledProcessError, TimeoutExpired, run
from typing import Any

from bench.lab.processes import PROPORTIONAL, cpu_seconds, memory_mib
from bench.lab.report import BenchError, Row, main
from ccmfs_common import host
from sandbox import daemon
from sandbox.api import Api
from sandbox.site import Site, open_clone, open_site
from sandbox.waiting import until

ROOT = Path(__file__).resolve().parents[1]
MOST_MIB, MOST_PERCENT, MOST_REJECTED_PERCENT = 1536, 5, 1
NAMESPACE = "bench-footprint"
UNHEALTHY_SECONDS = 240.0  # for load balancers to be made and to have checked their targets


def parents() -> dict[int, int]:
    """The parent of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = int(path.read_text().rpartition(") ")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return found


def family(root: int, parent_of: Mapping[int, int]) -> Iterator[int]:
    """A process and all that come from it."""
    yield root
    for pid, parent in parent_of.items():
        if parent == root:
            yield from family(pid, parent_of)


def used(pids: Iterable[int]) -> dict[int, float]:
    """The processor time of each process so far, in seconds, of those that are still there."""
    found = {}
    for pid in pids:
        try:
            found[pid] = cpu_seconds(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return found


def name(pid: int) -> str:
    """A process as a row of the table names it."""
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    program = Path(words[0]).name
    if program.startswith("python"):
        return next(known for mark, known in _PYTHON.items() if mark in words)
    return next((known for mark, known in _SYSTEM.items() if program.startswith(mark)), program)


_PYTHON = {
    "serve": "emulated cloud",
    "/usr/local/bin/k3s": "stand-in for k3s",
    "ccm": "CCM",
    "": "other Python",
}
_SYSTEM = {"containerd-shim": "containerd-shim", "systemd": "systemd", "init": "systemd", "sshd": "sshd"}


async def measure(arguments: argparse.Namespace) -> list[Row]:
    """All rows, the largest first."""
    clone = open_clone(ROOT, os.environ)
    running = daemon.find(clone)
    if running is None:
        raise BenchError("no sandbox runs in this clone: ./dev up makes one")
    found = await watch(running.pid, arguments.seconds)
    sums = {program: tuple(map(math.fsum, zip(*each, strict=True))) for program, each in found.items()}
    rows = []
    for program, (mib, percent) in sorted(sums.items(), key=lambda item: -item[1][0]):
        label = f"{program} ({len(found[program])})"
        rows += [Row(f"{label}, memory", mib, unit="MiB"), Row(f"{label}, processor", percent, unit="%")]
    mib, percent = map(math.fsum, zip(*sums.values(), strict=True))
    rejected = []
    if arguments.services:
        with services_without_endpoints(
            open_site(ROOT, os.environ, host.used_ranges, host.port_is_free), arguments.services
        ):
            balancers = (await watch(running.pid, arguments.seconds)).get("haproxy", [])
        what = f"load balancers of {arguments.services} Services without endpoints, processor"
        rejected = [Row(what, sum(used for _, used in balancers), MOST_REJECTED_PERCENT, "%")]
    return [
        Row(f"all {sum(map(len, found.values()))} processes, memory", mib, MOST_MIB, "MiB"),
        Row("all, processor", percent, MOST_PERCENT, "%"),
        *rejected,
        *rows,
    ]


async def watch(root: int, seconds: float) -> dict[str, list[tuple[float, float]]]:
    """Memory in MiB and processor time in percent of one core of each process, by program."""
    before = used(sorted(family(root, parents())))
    await asyncio.sleep(seconds)
    found: dict[str, list[tuple[float, float]]] = {}
    for pid, until_then in before.items():
        try:
            figures = memory_mib(pid, PROPORTIONAL), 100 * (cpu_seconds(pid) - until_then) / seconds
            found.setdefault(name(pid), []).append(figures)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    return found


@contextmanager
def services_without_endpoints(site: Site, number: int) -> Iterator[None]:
    """Services with load balancers that have checked their targets and found them all unhealthy."""
    before = {balancer["id"] for balancer in Api(site.address).list("load_balancers")}
    try:
        kubectl("create", "namespace", NAMESPACE)
        listed = {"apiVersion": "v1", "kind": "List", "items": manifests(number)}
        kubectl("apply", "-f", "-", text=json.dumps(listed))
        if not until(lambda: all_unhealthy(site, before, number), UNHEALTHY_SECONDS, 2):
            raise BenchError(f"after {UNHEALTHY_SECONDS:.0f} s there are healthy targets, or none")
        yield
    finally:
        kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")


def manifests(number: int) -> list[dict[str, Any]]:
    """Services of type LoadBalancer that select nothing."""
    settings = {"location": "fsn1", "use-private-ip": "true"}
    annotations = {f"load-balancer.hetzner.cloud/{name}": value for name, value in settings.items()}
    spec = {"type": "LoadBalancer", "selector": {"app": "nothing"}, "ports": [{"port": 80}]}
    fixed = {"namespace": NAMESPACE, "annotations": annotations}
    service = {"apiVersion": "v1", "kind": "Service", "spec": spec}
    return [service | {"metadata": {**fixed, "name": f"empty-{index}"}} for index in range(number)]


def all_unhealthy(site: Site, before: Iterable[int], number: int) -> bool:
    """Whether there are so many more load balancers, each with targets that are all unhealthy."""
    known = set(before)
    made = [balancer for balancer in Api(site.address).list("load_balancers") if balancer["id"] not in known]
    return len(made) == number and all(
        {check["status"] for target in balancer["targets"] for check in target["health_status"]}
        == {"unhealthy"}
        for balancer in made
    )


def kubectl(*words: str, text: str = "") -> None:
    """Ask the clone's cluster."""
    try:
        command = [str(ROOT / "dev"), "kubectl", *words]
        run(command, input=text, text=True, capture_output=True, check=True, timeout=120)
    except CalledProcessError as error:
        raise BenchError(error.stderr.strip() or f"kubectl ended with {error.returncode}") from error
    except TimeoutExpired as error:
        raise BenchError("kubectl got no answer within 120 s") from error


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=float, default=60, metavar="N", help="the duration of the measurement (default: 60)"
    )
    parser.add_argument(
        "--services",
        type=int,
        default=10,
        metavar="N",
        help="the number of Services without endpoints (default: 10; 0 omits this part)",
    )


if __name__ == "__main__":
    sys.exit(main("An idle sandbox", __doc__, measure, options, peer=False))
