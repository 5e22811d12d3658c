"""Time, requests and CPU of the CCM for 1,000 new Nodes: ``./dev bench nodes [--nodes 1000] [--peer PATH]``.

The Nodes register at a real API server, and wait with the taint for an external cloud provider. Then the
CCM starts as a process. The time ends when the last Node has its provider ID, addresses and labels, and no
taint. Load balancers and routes are disabled.

The limits apply to the requests in the cloud's log and to the CPU of the CCM, which includes its start. The
CPU has a limit only for 1,000 nodes and more. The time has no limit, because API server, etcd, cloud and
CCM share the cores of this machine. It is only meaningful on an idle machine.
"""

import argparse
import math
import sys
import time

from bench.lab.processes import cpu_seconds
from bench.lab.report import BenchError, Row, main, say
from bench.lab.stage import Stage, stage
from bench.lab.subject import Subject, running, subjects

CPU_SECONDS = 6.7  # what the genuine official binary (v1.35.0) used for 1,000 nodes
PAGE = 50
SERVERS = "GET /servers"
OFF = {"HCLOUD_LOAD_BALANCERS_ENABLED": "false"}
NODES = 1000


async def run(on: Stage, subject: Subject, number: int) -> dict[str, float]:
    servers = await on.add_servers([f"node-{index:04}" for index in range(number)], private=False)
    await on.register(servers)
    await on.until("all nodes are registered", lambda: len(on.nodes.items()) == number)
    await on.untouched()
    say(f"{number} nodes are registered")
    on.cloud.forget()
    started = time.monotonic()
    with running(subject, on, network=False, more=OFF) as process:
        await on.until(
            "all nodes are initialized", lambda: on.initialized() == number, seconds=10 * number / 20
        )
        seconds = time.monotonic() - started
        cpu = cpu_seconds(process.pid)
        counts = await on.settled()
    bare = [node.metadata.name for node in on.nodes.items() if not node.metadata.labels.get(INSTANCE_TYPE)]
    if bare:
        raise BenchError(f"{len(bare)} nodes have no instance type, {bare[0]} for one")
    calls = sum(n for name, n in counts.items() if name.startswith(SERVERS))
    return {"seconds": seconds, "cpu": cpu, "calls": calls, "others": sum(counts.values()) - calls}


INSTANCE_TYPE = "node.kubernetes.io/instance-type"


async def measure(arguments: argparse.Namespace) -> list[Row]:
    found: dict[str, dict[str, float]] = {}
    number = arguments.nodes
    async with stage() as on:
        for subject in subjects(arguments.peer):
            found[subject.name] = await run(on, subject, number)
            await on.clear()
    ours, peer = found["ours"], found.get("peer", {})
    what = f"initialize {number} new nodes"
    judged = CPU_SECONDS * number / NODES if number >= NODES else None
    started = "from the start of the process"
    used = "of the CCM's process, its start included, so that few nodes judge nothing"

    def row(what: str, name: str, bound: float | None = None, official: str = "", **more: str) -> Row:
        return Row(what, ours[name], bound, peer=peer.get(name), official=official, **more)

    return [
        row(f"{what}: calls for servers", "calls", math.ceil(number / PAGE), "300 (1,000 nodes)"),
        row(f"{what}: time", "seconds", None, "150 s (1,000 nodes)", unit="s", note=started),
        row(f"{what}: CPU", "cpu", judged, f"{CPU_SECONDS} s (1,000 nodes)", unit="s", note=used),
        row("other calls, for its start", "others"),
    ]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=NODES, help="the number of Nodes (default: 1000)")


if __name__ == "__main__":
    sys.exit(main("New nodes", __doc__, measure, options))
