"""What tenants and kubelets that mean harm cost the others: ``./dev bench hostile [--services N]``.

First, for an hour each on a clock that jumps, the whole CCM in a cluster in memory, with the emulated cloud:

- a kubelet registers Nodes with the ranges and servers of others, with a route of the operator's, and with
  the server of a VPN, and every ten seconds another one with a name that no server has;
- a tenant makes forty Services at once, and then makes and deletes others, each with a new name.

Then Services that are as large as the API server takes. They are made at random (always the same): 256 KiB
of annotations, as one long value, as thousands of short ones, as keys of single ports or as what ``kubectl
apply`` leaves, and up to 40,000 ports. On the event loop on which a real elector renews its lease, they are
first listed, watched and held by the informer as the manager sets it up, over HTTP from a process of its
own; then each is decoded, read and complained about as the service controller does it.

- CPU is that of one Service from the object to the text of its Event, the largest of all; and before that, of
  a watch event's bytes to the object;
- memory of reading is the largest resident memory after any of them, and at its peak, beyond that of the
  first few;
- memory held is what resident memory has grown by, once all were listed and the watch sent each again: first
  with all annotations that the API server takes, then with as much as is kept of any Service, which is shown
  and not judged: 32 KiB of annotations, all of them read, and more ports than are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from bench.lab.hours import ours
from bench.lab.large import LIMIT, services
from bench.lab.processes import child, forget_peak, peak_mib, resident_mib
from bench.lab.report import BenchError, Row, listed, main, say
from ccm.controllers.service.policy import relevant
from ccm.controllers.service.syncer import view_of
from ccm.controllers.service.transform import trim_service
from ccm.hetzner.load_balancers.desired.listener_choice import wanted_listeners
from ccm.hetzner.load_balancers.service_annotations import annotations_to_keep
from ccm.hetzner.load_balancers.service_errors import InvalidAnnotations
from ccm.hetzner.load_balancers.spec.load_balancer_spec import read
from ccm.hetzner.settings import environment
from ccm.kube.decoding import decode_event
from ccm.kube.informer import Informer
from ccm.kube.lease import LeaderElector, LeaseObserver
from ccm.kube.objects import Service
from ccm.kube.transport import KubernetesTransport
from ccm.testing.memory_transport import MemoryTransport

WORST_MS, GROWTH_MIB = 50.0, 10.0
SERVERS = 8
SHARE = 900  # of the project's 3,600 calls an hour
SECONDS = 300.0  # until all are held
WARM_UP = 30
DEFAULTS = environment.read({"HCLOUD_TOKEN": "0" * environment.TOKEN_LENGTH}).load_balancers


def cost(content: bytes, before: list[Service]) -> tuple[float, float]:
    """CPU seconds of one Service: until it is an object, and from there to what its owner is told."""
    begun = time.process_time()
    event = decode_event(content, Service)
    service = event.object if event is not None else None
    if service is None:
        raise BenchError("a Service could not be decoded")
    started = time.process_time()
    same = bool(before) and relevant(before.pop()) == relevant(service)
    before.append(service)
    view = view_of(service)
    spec = read(view, DEFAULTS, network=True)
    _, notices = wanted_listeners(view.ports, spec.ports, {})
    told = [
        str(InvalidAnnotations([*spec.problems.values(), *spec.warnings.values()])),
        *(one.message for one in (*spec.unsupported, *notices)),
    ]
    if same or max(map(len, told)) > LIMIT // 10:
        raise BenchError("a complaint is as long as what it is about")
    return started - begun, time.process_time() - started


class Losses:
    """Counts how often the lease was lost."""

    lost = 0

    def leading(self, leading: bool) -> None:  # noqa: FBT001 - as the elector says it
        """Whether we lead changed."""
        self.lost += not leading

    def slow_path(self) -> None:
        """A renewal had to read the Lease again."""


@dataclass(frozen=True)
class Held:
    """What it took to hold Services.

    Attributes:
        services: How many.
        after: MiB more than before, for good.
        peak: MiB more than before, at any moment.
    """

    services: int
    after: float
    peak: float


async def hold(url: str, kind: str, number: int) -> Held:
    """List and watch large Services as the manager does, until each was seen twice."""
    pid = os.getpid()
    transport = await KubernetesTransport.connect(environment={}, master=url, user_agent="bench")
    informer = Informer(
        transport,
        f"/{kind}/api/v1/services",
        Service,
        transform=lambda service: trim_service(service, annotations_to_keep),
    )
    seen, all_twice = 0, asyncio.Event()

    def see(_old: Service | None, _new: Service | None) -> None:
        nonlocal seen
        seen += 1
        if seen == 2 * number:
            all_twice.set()

    informer.add_handler(see)
    before = resident_mib(pid)
    forget_peak(pid)
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(SECONDS):
            await all_twice.wait()
        found = Held(len(informer), resident_mib(pid) - before, peak_mib(pid) - before)
    finally:
        task.cancel()
        await asyncio.wait([task])
        await transport.close()
    if found.services != number:
        raise BenchError(f"{found.services} Services are held, {number} are there")
    return found


@contextmanager
def large_api(number: int) -> Iterator[str]:
    """An API server with so many large Services; its address."""
    command = [sys.executable, "-m", "bench.lab.large_api", "--services", str(number)]
    with (
        tempfile.TemporaryDirectory() as folder,
        child(command, log=Path(folder) / "log", stdout=subprocess.PIPE) as process,
    ):
        if process.stdout is None or not (url := process.stdout.readline().strip()):
            raise BenchError("the API server did not start")
        yield url


async def measure(arguments: argparse.Namespace) -> list[Row]:
    """All rows."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    losses, number = Losses(), arguments.services
    held: list[Held] = []
    reading = OfficialFormat()

    async def work() -> None:
        with large_api(number) as url:
            say(f"holding {number} Services with all annotations that fit")
            held.append(await hold(url, "annotations", number))
            say(f"reading {number} Services")
            await reading.run(number)
            say(f"holding {number} Services of which as much is kept as of any")
            held.append(await hold(url, "trim_service", number))

    gc.collect()
    gc.freeze()  # as the manager does: what is there from the start is not looked through again and again
    observer = LeaseObserver(losses.leading, losses.slow_path)
    elector = LeaderElector(MemoryTransport(), identity="bench", observer=observer)
    await elector.run(work)
    losses_while_working = losses.lost - 1  # the last one is the end of the work
    full, most = held
    return [
        *kubelet_rows(await ours("kubelet", SERVERS, private=True, more=["vpn"])),
        *tenant_rows(await ours("tenant", SERVERS)),
        *reading.rows(),
        Row(
            "memory held, all annotations that fit",
            full.after,
            GROWTH_MIB,
            "MiB more",
            note=f"{full.peak:.1f} MiB at its peak",
        ),
        Row(
            "memory held, as much as is kept of any",
            most.after,
            unit="MiB more",
            note=f"{most.peak:.1f} MiB at its peak",
        ),
        Row("leases lost", losses_while_working, 0, ""),
    ]


def kubelet_rows(found: Mapping[str, Any]) -> list[Row]:
    """What an hour with a hostile kubelet did to others."""
    if found["made"] < SERVERS or not found["served"]:
        raise BenchError(f"there was nothing to harm: {found}")
    total = sum(found["counts"].values())
    return [
        Row("hostile kubelet: routes of others changed, or made for it", found["routes"], 0, ""),
        Row("hostile kubelet: Nodes of others without network", found["nodes"], 0, ""),
        Row("hostile kubelet: targets that are no Node of the cluster", found["targets"], 0, ""),
        Row("hostile kubelet: calls in an hour", total, SHARE, note=listed(found["counts"])),
    ]


def tenant_rows(found: Mapping[str, Any]) -> list[Row]:
    """What others noticed of a tenant that makes and deletes Services."""
    total = sum(found["counts"].values())
    return [
        Row("forty Services at once: made before that of another tenant", found["before"], 1, ""),
        Row("Services made and deleted: calls in an hour", total, SHARE, note=listed(found["counts"])),
        Row("... and seconds until another tenant's has an address", found["seconds"], 1, "s"),
    ]


class OfficialFormat:
    """What it costs to read Services."""

    def __init__(self) -> None:
        self._costs: list[float] = []
        self._decoding: list[float] = []
        self._first: list[tuple[float, float]] = []
        self._sizes: list[tuple[float, float]] = []

    async def run(self, number: int) -> None:
        """Read so many, after a few that warm up."""
        pid, before = os.getpid(), list[Service]()
        forget_peak(pid)
        for index, content in enumerate(services(number + WARM_UP)):
            decoded, seconds = cost(content, before)
            size = resident_mib(pid), peak_mib(pid)
            (self._first if index < WARM_UP else self._sizes).append(size)
            if index >= WARM_UP:
                self._costs.append(seconds)
                self._decoding.append(decoded)
            await asyncio.sleep(0)

    def rows(self) -> list[Row]:
        """What came of it."""
        costs = sorted(self._costs)
        return [
            Row(
                "CPU of the most expensive Service",
                costs[-1] * 1000,
                WORST_MS,
                "ms",
                note=f"median {costs[len(costs) // 2] * 1000:.1f} ms",
            ),
            Row("CPU to decode the largest", max(self._decoding) * 1000, unit="ms"),
            *(
                Row(
                    f"memory {when}",
                    max(0.0, _largest(self._sizes, at) - _largest(self._first, at)),
                    GROWTH_MIB,
                    "MiB more",
                )
                for at, when in enumerate(("after reading any of them", "at the peak of reading"))
            ),
        ]


def _largest(sizes: list[tuple[float, float]], at: int) -> float:
    return max(size[at] for size in sizes)


def _options(parser: argparse.ArgumentParser) -> Any:
    return parser.add_argument("--services", type=int, default=1000, help="how many (default: 1000)")


if __name__ == "__main__":
    sys.exit(main("Tenants and kubelets that mean harm", __doc__, measure, _options, peer=False))
