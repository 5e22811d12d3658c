"""Requests of the CCM for ten new routes: ``./dev bench routes [--peer PATH]``.

A CCM without the route controller initializes ten nodes. Then the CCM starts again with the route
controller. Actions are as slow as at Hetzner, and lock the network. The benchmark counts the following in
the cloud's log:

- requests for the network, except the lookup of the network at the start
- polls of actions
- conflicts: responses with the error ``locked`` or ``conflict``

Then ten more nodes join at the same time while the CCM runs, as with an autoscaler.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.lab.cloud import POLLS
from bench.lab.report import Row, listed, main
from bench.lab.stage import Stage, stage
from bench.lab.subject import Subject, running, subjects

ROUTES = 10
NETWORK = "/networks/"
REFUSED = frozenset({"locked", "conflict"})


@dataclass
class Figures:
    """What ten routes needed."""

    calls: int = 0
    polls: int = 0
    others: int = 0
    conflicts: int = 0
    seconds: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)


def tell_apart(entries: list[dict[str, Any]], seconds: float) -> Figures:
    """Sort a request log."""
    counts = Counter(entry["operation"] for entry in entries)
    polls = sum(n for name, n in counts.items() if name.startswith(POLLS))
    calls = sum(n for name, n in counts.items() if NETWORK in name)
    conflicts = sum(entry["code"] in REFUSED for entry in entries)
    return Figures(calls, polls, len(entries) - calls - polls, conflicts, seconds, counts)


def complete(on: Stage, routes: int) -> bool:
    """Whether the network has a route for every node, and every node says so."""
    available = sum(
        any(one.type == "NetworkUnavailable" and one.status == "False" for one in node.status.conditions)
        for node in on.nodes.items()
    )
    return available == routes and len(on.cloud.network()["routes"]) == routes


async def measured(on: Stage, routes: int, started: float) -> Figures:
    """Wait for so many routes and count."""
    await on.until(f"{routes} routes are there", lambda: complete(on, routes), seconds=300)
    seconds = time.monotonic() - started
    await on.settled()
    return tell_apart(await asyncio.to_thread(on.cloud.requests), seconds)


async def run(on: Stage, subject: Subject) -> tuple[Figures, Figures]:
    """One CCM's figures: routes for nodes that are there, and for nodes that join."""
    await on.add_nodes([f"node-{index:02}" for index in range(ROUTES)])
    with running(subject, on, routes=False):
        await on.until("all nodes are initialized", lambda: on.initialized() == ROUTES)
        await on.until("all nodes have a pod CIDR", lambda: all(n.spec.pod_cidr for n in on.nodes.items()))
        await on.settled()
    on.cloud.actions("realistic")
    on.cloud.forget()
    started = time.monotonic()
    with running(subject, on, routes=True):
        there = await measured(on, ROUTES, started)
        on.cloud.actions("instant")
        servers = await on.add_servers([f"new-{index:02}" for index in range(ROUTES)])
        on.cloud.actions("realistic")
        on.cloud.forget()
        started = time.monotonic()
        await on.register(servers)
        joined = await measured(on, 2 * ROUTES, started)
    on.cloud.actions("instant")
    return there, joined


async def measure(arguments: argparse.Namespace) -> list[Row]:
    found: dict[str, tuple[Figures, Figures]] = {}
    async with stage() as on:
        for subject in subjects(arguments.peer):
            found[subject.name] = await run(on, subject)
            await on.clear()
    ours, joined = found["ours"]
    peer, peer_joined = map(vars, found["peer"]) if arguments.peer else ({}, {})
    new, join = f"{ROUTES} new routes, without polls", f"{ROUTES} nodes join at once, without polls"
    calls, official = peer.get("calls"), "53, without its feature gate"
    return [
        Row(new, ours.calls, 1 + ROUTES, peer=calls, official=official, note=listed(ours.counts)),
        Row("conflicts", ours.conflicts, 0, "", peer.get("conflicts"), "30, without that"),
        Row("batched polls", ours.polls, peer=peer.get("polls")),
        Row("time", ours.seconds, None, "s", peer=peer.get("seconds"), note="from the process' start"),
        Row(join, joined.calls, peer=peer_joined.get("calls"), note=listed(joined.counts)),
        Row("conflicts then", joined.conflicts, 0, "", peer=peer_joined.get("conflicts")),
    ]


if __name__ == "__main__":
    sys.exit(main("Routes", __doc__, measure))
