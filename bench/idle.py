"""What a quiet hour costs: ``./dev bench idle [--peer PATH --peer-minutes 10]``.

1,000 nodes, 20 load balancers with 2 ports and 25 targets each, defaults everywhere, no change for an hour;
every kubelet renews its status every five minutes. Ours: the whole CCM against the emulated cloud, with an
API server in memory, in a process whose clock jumps to the next timer, so that the hour takes seconds; the
hour begins after 15 minutes of the same kind. The official CCM (--peer) can't have such a clock: it runs
against a real API server in real time for --peer-minutes, and its count is scaled to an hour.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from bench.lab import hours
from bench.lab.report import Row, listed, main
from bench.lab.stage import stage
from bench.lab.subject import Subject, official, running
from ccm.kube.objects import Node

SERVERS, BALANCERS, PORTS, TARGETS, BOUND = 1000, 20, 2, 25, 150
PREFIX = "load-balancer.hetzner.cloud/"


async def peer(subject: Subject, minutes: float) -> float:
    """The official CCM's calls an hour."""
    async with stage() as on:
        servers = await on.add_servers([f"node-{index:04}" for index in range(SERVERS)], private=False)
        await on.register(servers)
        for server in servers[:TARGETS]:
            path = f"/api/v1/nodes/{server.name}"
            await on.api.patch(path, {"metadata": {"labels": {"pool": "edge"}}}, Node)
        with running(subject, on, network=False):
            await on.until("all nodes are initialised", lambda: on.initialized() == SERVERS, seconds=600)
            for number in range(BALANCERS):
                annotations = {PREFIX + "node-selector": "pool=edge"}
                await on.put_service(f"web-{number:02}", PORTS, annotations)
            await on.until(
                "all load balancers are ready",
                lambda: (
                    all(
                        one.status.load_balancer.ingress
                        for one in on.services.items()
                        if one.spec.type == "LoadBalancer"
                    )
                    and len(on.cloud.load_balancers()) == BALANCERS
                ),
                seconds=600,
            )
            await on.settled()
            return await hours.real_time(lambda: asyncio.to_thread(on.cloud.counts), on.cloud.forget, minutes)


async def measure(arguments: argparse.Namespace) -> list[Row]:
    """All rows."""
    counts = (await hours.ours("idle", SERVERS))["counts"]
    theirs = None
    if arguments.peer:
        theirs = await peer(official(arguments.peer), arguments.peer_minutes)
    return [
        Row(
            f"steady state, {SERVERS} nodes, {BALANCERS} load balancers, one hour",
            sum(counts.values()),
            BOUND,
            peer=theirs,
            official="240, by formula",
            note=listed(counts),
        )
    ]


if __name__ == "__main__":
    sys.exit(main("A quiet hour", __doc__, measure, hours.options))
