"""What one machine costs that is off for an hour: ``./dev bench shutdown [--peer PATH --peer-minutes 10]``.

500 nodes in a project of 500 servers, no load balancers, defaults everywhere. One server is powered off; 50 s
later Kubernetes calls its node not ready; from then on counts how long the node lacks its shutdown taint. At
the end it is powered on: from when its node is ready counts how long it keeps the taint. The hour's calls are
all calls, those of the regular refresh of all nodes included. How ours gets its hour is said in
``./dev bench idle``; the official CCM (--peer) is watched in real time against a real API server, and its
count is scaled.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from bench.lab import hours
from bench.lab.report import Row, listed, main
from bench.lab.stage import Stage, stage
from bench.lab.subject import Subject, official, running
from ccm.kube.objects import Node
from ccm.kube.protocol import STRATEGIC_MERGE_PATCH

SERVERS, CALLS, SECONDS = 500, 200, 15.0
SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"


def is_tainted(on: Stage, name: str) -> bool:
    """Whether a Node has the taint of a machine that is off."""
    node = on.nodes.get(name)
    return node is not None and any(taint.key == SHUTDOWN for taint in node.spec.taints)


async def peer(subject: Subject, minutes: int) -> tuple[float, float, float]:
    """The official CCM's calls an hour, seconds to the taint, and seconds until it is gone again."""
    async with stage() as on:
        servers = await on.add_servers([f"node-{index:04}" for index in range(SERVERS)], private=False)
        await on.register(servers)
        victim = servers[SERVERS // 2]
        with running(subject, on, network=False):
            await on.until("all nodes are initialised", lambda: on.initialized() == SERVERS, seconds=600)
            await on.settled()
            path = f"/servers/{victim.id}/actions/poweroff"
            await asyncio.to_thread(on.cloud.call, "POST", path)
            await on.hollow.power_off(victim.name)
            condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
            await on.api.patch(
                f"/api/v1/nodes/{victim.name}/status",
                {"status": {"conditions": [condition]}},
                Node,
                content_type=STRATEGIC_MERGE_PATCH,
            )
            started = time.monotonic()
            on.cloud.forget()
            await on.until("the node is tainted", lambda: is_tainted(on, victim.name), seconds=300)
            seconds = time.monotonic() - started
            calls = await hours.real_time(
                lambda: asyncio.to_thread(on.cloud.counts), on.cloud.forget, minutes
            )
            await asyncio.to_thread(on.cloud.call, "POST", f"/servers/{victim.id}/actions/poweron")
            await on.register([victim])  # its kubelet is back; returns when Kubernetes calls it ready
            started = time.monotonic()
            await on.until("the taint is gone", lambda: not is_tainted(on, victim.name), seconds=300)
            return calls, seconds, time.monotonic() - started


async def measure(arguments: argparse.Namespace) -> list[Row]:
    """All rows."""
    found = await hours.ours("shutdown", SERVERS)
    counts = found["counts"]
    calls: float | None = None
    seconds: float | None = None
    gone: float | None = None
    if arguments.peer:
        calls, seconds, gone = await peer(official(arguments.peer), arguments.peer_minutes)
    return [
        Row(
            f"one node off for an hour, {SERVERS} servers",
            sum(counts.values()),
            CALLS,
            peer=calls,
            official="about 2,400, by formula",
            note=listed(counts),
        ),
        Row("until its shutdown taint", found["tainted"], SECONDS, "s", peer=seconds, official="7.6 s"),
        Row("until the taint is gone, once it is ready", found["untainted"], SECONDS, "s", peer=gone),
    ]


if __name__ == "__main__":
    sys.exit(main("A machine that is off", __doc__, measure, hours.options))
