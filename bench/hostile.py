"""What Services cost that are as large as the API server takes: ``./dev bench hostile [--services N]``.

Services are made at random (always the same): 256 KiB of annotations, as one long value, as thousands of
short ones or as keys of single ports, and up to 40,000 ports. Each is decoded, read and complained about as
the service controller does it, on the event loop on which a real elector renews its lease.

- CPU is that of one Service from the object to the text of its Event, the largest of all; and before that, of
  a watch event's bytes to the object;
- memory is the process's largest resident memory after any of them, and at its peak, beyond that of the first
  few.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

import structlog

from bench.lab.processes import resident_mib
from bench.lab.report import BenchError, Row, main, say
from ccm.controllers.service.policy import relevant, view_of
from ccm.hetzner import environment
from ccm.hetzner.load_balancers.annotations import read
from ccm.hetzner.load_balancers.errors import InvalidAnnotations
from ccm.hetzner.load_balancers.keys import KEYS, PORT_KEYS
from ccm.hetzner.load_balancers.listeners import wanted_listeners
from ccm.hetzner.load_balancers.reader import LONGEST_ANNOTATIONS, PREFIX
from ccm.kube.lease import LeaderElector
from ccm.kube.memory import MemoryTransport
from ccm.kube.objects import Service
from ccm.kube.wire import decode_event

WORST_MS, GROWTH_MIB = 50.0, 10.0
LIMIT = 256 * 1024
WARM_UP = 30
PORTS = (1, 200, 2768, 40_000)
PATTERNS = ("a.example.com,", ",", "x", "a=b,", "!a,", "a in (b),", " ", "9", "200,", "1.2.3.4/", "-.")
USUAL: tuple[dict[str, str], ...] = (
    {},
    {"protocol": "https"},
    {"protocol": "https", "certificate-type": "managed"},
    {"health-check-protocol": "http"},
)
DEFAULTS = environment.read({"HCLOUD_TOKEN": "0" * environment.TOKEN_LENGTH}).load_balancers


def services(number: int) -> Iterator[bytes]:
    """Services as the API server would send them."""
    dice = random.Random(20261122)
    for index in range(number):
        # Made elsewhere, so that nothing of it is left for the garbage collector to look through.
        yield _service(dice, index)


def _service(dice: random.Random, index: int) -> bytes:
    # Half of them stay below what is read, for those cost the most.
    room = LIMIT if index % 2 else LONGEST_ANNOTATIONS
    annotations = _annotations(dice, room - 200)
    protocol = dice.choice(("TCP", "TCP", "TCP", "UDP"))
    ports = [
        {"name": f"p{port}", "port": port, "nodePort": 30_000 + port % 2768, "protocol": protocol}
        for port in range(1, 1 + PORTS[index % len(PORTS)])
    ]
    metadata = {"namespace": "evil", "name": f"s{index}", "uid": f"u{index}", "annotations": annotations}
    item = {"metadata": metadata, "spec": {"type": "LoadBalancer", "ports": ports}}
    return json.dumps({"type": "MODIFIED", "object": item}).encode()


def _annotations(dice: random.Random, room: int) -> dict[str, str]:
    found = {PREFIX + key: value for key, value in dice.choice(USUAL).items()}
    shape = dice.choice(("long", "short", "ports"))
    if shape == "long":
        key = dice.choice(sorted(KEYS))
        pattern = dice.choice(PATTERNS)
        found[PREFIX + key] = (pattern * (1 + room // len(pattern)))[: room - len(key)]
        return found
    for number in range(1, 65_536):
        key = f"port.{number}.{dice.choice(sorted(PORT_KEYS))}" if shape == "ports" else f"helth-{number}"
        value = dice.choice(("https", "true", "5", "a.example.com", "x"))
        room -= len(PREFIX + key) + len(value)
        if room < 0:
            break
        found[PREFIX + key] = value
    return found


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
    wishes = read(view, DEFAULTS, network=True)
    _, notices = wanted_listeners(view, wishes, {})
    told = [str(InvalidAnnotations(wishes.complaints)), *(one.message for one in notices)]
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


async def measure(arguments: argparse.Namespace) -> list[Row]:
    """All rows."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    losses, costs, decoding, sizes = Losses(), list[float](), list[float](), list[tuple[float, float]]()
    first = list[tuple[float, float]]()
    pid = os.getpid()

    async def work() -> None:
        before: list[Service] = []
        for index, content in enumerate(services(arguments.services + WARM_UP)):
            decoded, seconds = cost(content, before)
            (first if index < WARM_UP else sizes).append((resident_mib(pid), _peak_mib()))
            if index >= WARM_UP:
                costs.append(seconds)
                decoding.append(decoded)
            await asyncio.sleep(0)

    gc.collect()
    gc.freeze()  # as the manager does: what is there from the start is not looked through again and again
    say(f"reading {arguments.services} Services")
    elector = LeaderElector(MemoryTransport(), identity="bench", observer=losses)
    await elector.run(work)
    costs.sort()
    middle = costs[len(costs) // 2] * 1000
    losses_while_working = losses.lost - 1  # the last one is the end of the work
    return [
        Row(
            "CPU of the most expensive Service",
            costs[-1] * 1000,
            WORST_MS,
            "ms",
            note=f"median {middle:.1f} ms",
        ),
        Row(
            "CPU to decode the largest",
            max(decoding) * 1000,
            unit="ms",
            note="a copy of it is all that is kept",
        ),
        *(
            Row(f"memory {when}", max(0.0, _largest(sizes, at) - _largest(first, at)), GROWTH_MIB, "MiB more")
            for at, when in enumerate(("after any of them", "at its peak"))
        ),
        Row("leases lost", losses_while_working, 0, ""),
    ]


def _largest(sizes: list[tuple[float, float]], at: int) -> float:
    return max(size[at] for size in sizes)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _options(parser: argparse.ArgumentParser) -> Any:
    return parser.add_argument("--services", type=int, default=1000, help="how many (default: 1000)")


if __name__ == "__main__":
    sys.exit(main("Services as large as the API server takes", __doc__, measure, _options))
