"""Requests of the CCM for load balancers: ``./dev bench load_balancers [--peer PATH]``.

The CCM runs as a process, with a real API server and the emulated cloud. The benchmark counts the requests
in the cloud's log for these operations:

- A Service with 2 ports gets its load balancer with 10 nodes in a private network. Actions are as slow as
  at Hetzner.
- The Service changes in a way that needs no change of the load balancer, first with a fresh cache, then
  with an expired cache.
- 20 Services have load balancers, and one node is added.

The cache of load balancers expires after 30 s, so the benchmark waits for this time.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.lab.cloud import POLLS
from bench.lab.report import Row, listed, main, say
from bench.lab.stage import SERVICES, Stage, stage
from bench.lab.subject import Subject, running, subjects
from ccm.kube.objects import Service

PREFIX = "load-balancer.hetzner.cloud/"
PRIVATE = {PREFIX + "use-private-ip": "true"}
PORTS, TARGETS, MANY = 2, 10, 20
VIEW_SECONDS = 30.0
OFFICIAL_SECONDS = 19.8  # of v1.35.0, measured on 2026-11-21
SHARE = 0.25


@dataclass
class Figures:
    """What one CCM needed."""

    create_calls: int = 0
    create_seconds: float = 0.0
    fresh: int = 0
    stale: int = 0
    node: int = 0
    node_polls: int = 0
    details: dict[str, Mapping[str, int]] = field(default_factory=dict)


def ready(on: Stage, balancers: int, targets: int) -> bool:
    """Whether so many Services have an address, and so many load balancers have all their targets."""
    listed = [one for one in on.services.items() if one.spec.type == "LoadBalancer"]
    if len(listed) != balancers or any(not one.status.load_balancer.ingress for one in listed):
        return False
    found = on.cloud.load_balancers()
    return len(found) == balancers and all(
        len(one["targets"]) == targets and len(one["services"]) == PORTS for one in found
    )


async def touch(on: Stage, name: str, number: int) -> None:
    """Change a Service in a way that is of no consequence, but that only a look at it can tell."""
    body = {"metadata": {"annotations": {"bench.example/touched": str(number)}}}
    await on.api.patch(f"{SERVICES}/{name}", body, Service)


async def create(on: Stage, figures: Figures) -> None:
    """The first load balancer, with actions as slow as real ones."""
    on.cloud.actions("realistic")
    on.cloud.forget()
    started = time.monotonic()
    await on.put_service("web-00", PORTS, PRIVATE)
    await on.until("the load balancer is ready", lambda: ready(on, 1, TARGETS))
    figures.create_seconds = time.monotonic() - started
    figures.details["create"] = await on.settled()
    figures.create_calls = sum(figures.details["create"].values())
    on.cloud.actions("instant")


async def unchanged(on: Stage, figures: Figures) -> None:
    """Looks that find nothing to do."""
    await touch(on, "web-00", 0)
    await on.settled()
    on.cloud.forget()
    await touch(on, "web-00", 1)
    figures.fresh = sum((await on.settled()).values())
    say(f"waiting {VIEW_SECONDS:.0f} s for the view to grow old")
    await asyncio.sleep(VIEW_SECONDS + 1)
    on.cloud.forget()
    await touch(on, "web-00", 2)
    figures.details["stale"] = await on.settled()
    figures.stale = sum(figures.details["stale"].values())


async def one_node_added(on: Stage, figures: Figures) -> None:
    """Twenty load balancers get a new target."""
    for number in range(1, MANY):
        await on.put_service(f"web-{number:02}", PORTS, PRIVATE)
    await on.until("all load balancers are ready", lambda: ready(on, MANY, TARGETS), seconds=300)
    await on.settled()
    servers = await on.add_servers(["one-more"])
    await asyncio.sleep(VIEW_SECONDS + 1)
    on.cloud.forget()
    await on.register(servers)
    await on.until("all have the new target", lambda: ready(on, MANY, TARGETS + 1), seconds=300)
    counts = figures.details["node"] = await on.settled()
    figures.node_polls = sum(n for name, n in counts.items() if name.startswith(POLLS))
    figures.node = sum(counts.values()) - figures.node_polls


async def run(on: Stage, subject: Subject) -> Figures:
    figures = Figures()
    await on.add_nodes([f"node-{index:02}" for index in range(TARGETS)])
    with running(subject, on):
        await on.until("all nodes are initialized", lambda: on.initialized() == TARGETS)
        await on.settled()
        await create(on, figures)
        await unchanged(on, figures)
        await one_node_added(on, figures)
    return figures


async def measure(arguments: argparse.Namespace) -> list[Row]:
    found: dict[str, Figures] = {}
    async with stage() as on:
        for subject in subjects(arguments.peer):
            found[subject.name] = await run(on, subject)
            await on.clear()
    ours, peer = found["ours"], found.get("peer")
    what = f"create, {PORTS} ports, {TARGETS} nodes, private network"
    added = f"one node added, {MANY} Services x {PORTS} ports, without polls"
    quarter = SHARE * (peer.create_seconds if peer else OFFICIAL_SECONDS)
    slow = "a quarter of the official one; actions as slow as on the real cloud"

    def row(what: str, name: str, bound: float | None = None, official: str = "", **more: str) -> Row:
        theirs = getattr(peer, name) if peer else None
        return Row(what, getattr(ours, name), bound, peer=theirs, official=official, **more)

    return [
        row("nothing to change, fresh view", "fresh", 0, "4"),
        row("nothing to change, stale view", "stale", 1, "4"),
        row(what, "create_calls", 6, "59", note=listed(ours.details["create"])),
        row(f"{what}: time", "create_seconds", quarter, f"{OFFICIAL_SECONDS} s", unit="s", note=slow),
        row(added, "node", MANY + 2, "120", note=listed(ours.details["node"])),
        row("batched polls for it", "node_polls"),
    ]


if __name__ == "__main__":
    sys.exit(main("Load balancers", __doc__, measure))
