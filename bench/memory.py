"""Memory and CPU of the CCM: ``./dev bench memory [--small 10 --large 5000] [--peer PATH]``.

The CCM runs like a Pod. Our CCM runs from its image, or from the source code with --from=tree. It uses a
real API server, whose initialized Nodes have about 7 KiB each, and the emulated cloud with one server for
each Node. All controllers except the route controller run. The benchmark measures the process when it has
been idle for some seconds:

- Memory is the resident memory in smaps_rollup. The table also shows the anonymous memory.
- CPU is user and system time since the start of the process. The CPU to load nodes and servers is the
  difference between the large and the small cluster. The table also shows the CPU of the start.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from bench.lab.cloud import Server
from bench.lab.pod import Pod, make_pod, origin
from bench.lab.processes import ANONYMOUS, RESIDENT, cpu_seconds, memory_mib
from bench.lab.report import BenchError, Row, main, say
from bench.lab.stage import NODES, Stage, each, stage
from bench.lab.subject import Subject, running, subjects
from ccm.kube.objects import Node

SMALL, LARGE = 10, 5000
SMALL_MIB, LARGE_MIB, SECONDS = 56.0, 100.0, 1.5
START_SECONDS = 0.35
IMAGES, DIGEST = 14, "0123456789abcdef" * 4
PAGE = 50
QUIET_SHARE = 0.05  # of a core
QUIET_SECONDS = 4.0


@dataclass(frozen=True)
class Figures:
    """What one process used."""

    resident: float  # MiB
    private: float  # MiB that no file backs
    cpu: float  # seconds since its start


def node_of(server: Server, number: int) -> dict[str, Any]:
    """An initialized Node as large as a real one."""
    names = [f"registry.example.com/team-{image}/application-{image}" for image in range(IMAGES)]
    images = [
        {"names": [f"{name}@sha256:{DIGEST}", f"{name}:v1.2.{index}"], "sizeBytes": 123_456_789 + index}
        for index, name in enumerate(names)
    ]
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready", "NetworkUnavailable")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    said = "kubelet says that its condition is as it should be"
    conditions = [
        {"type": kind, "status": str(kind == "Ready"), "reason": f"Kubelet{kind}", "message": said, **times}
        for kind in kinds
    ]
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": "cpx22",
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": "fsn1",
        "failure-domain.beta.kubernetes.io/zone": "fsn1-dc14",
        "instance.hetzner.cloud/provided-by": "cloud",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": server.name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "cpx22",
        "topology.kubernetes.io/region": "fsn1",
        "topology.kubernetes.io/zone": "fsn1-dc14",
    }
    annotations = {
        "alpha.kubernetes.io/provided-node-ip": server.public_ip,
        "node.alpha.kubernetes.io/ttl": "300",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }
    pods = f"10.{128 + number // 256}.{number % 256}.0/24"
    addresses = [("ExternalIP", server.public_ip), ("Hostname", server.name)]
    return {
        "metadata": {"name": server.name, "labels": labels, "annotations": annotations},
        "spec": {"providerID": f"hcloud://{server.id}", "podCIDR": pods, "podCIDRs": [pods]},
        "status": {
            "addresses": [{"type": kind, "address": address} for kind, address in addresses],
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "conditions": conditions,
            "images": images,
            "nodeInfo": dict.fromkeys(_INFO, "a text as long as they usually are"),
        },
    }


_INFO = (
    *("architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion"),
    *("kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID"),
)


async def quiet(on: Stage, process: subprocess.Popen[str], pages: int) -> None:
    """Wait until all servers were listed and the process does nothing any more."""
    await on.until(
        "all servers were listed",
        lambda: (
            process.poll() is not None
            or sum(n for name, n in on.cloud.counts().items() if name == "GET /servers") >= pages
        ),
        seconds=300,
    )
    if process.poll() is not None:
        raise BenchError("it ended")
    end, since, used = time.monotonic() + 300, time.monotonic(), cpu_seconds(process.pid)
    while time.monotonic() - since < QUIET_SECONDS:
        if time.monotonic() > end:
            raise BenchError("the process was busy for five minutes")
        await asyncio.sleep(0.5)
        now = cpu_seconds(process.pid)
        if now - used > QUIET_SHARE * (time.monotonic() - since) + QUIET_SHARE:
            since, used = time.monotonic(), now


async def run(on: Stage, subject: Subject, pod: Pod, number: int) -> Figures:
    """One process with so many nodes."""
    have = await asyncio.to_thread(on.cloud.servers)
    say(f"making {number} servers and nodes")
    names = [f"node-{index:04}" for index in range(len(have), number)]
    added = await on.add_servers(names, private=False)
    numbered = list(enumerate(added, len(have)))
    await each(numbered, lambda one: on.api.create(NODES, node_of(one[1], one[0]), Node))
    await on.until("all nodes are there", lambda: len(on.nodes.items()) == number)
    await on.untouched()
    on.cloud.forget()
    with running(subject, on, network=False, pod=pod) as process:
        versions = on.versions()
        await quiet(on, process, -(-number // PAGE))
        if on.versions() != versions:
            raise BenchError("something changed nodes; this measures reading, not writing")
        pid = process.pid
        return Figures(memory_mib(pid, RESIDENT), memory_mib(pid, ANONYMOUS), cpu_seconds(pid))


async def measure(arguments: argparse.Namespace) -> list[Row]:
    found: dict[tuple[str, int], Figures] = {}
    chosen = subjects(arguments.peer)
    small, large = arguments.small, arguments.large
    async with stage() as on:
        pod = await make_pod(on.api, on.url, on.authority, on.directory, image=arguments.origin == "image")
        for number in (small, large):
            for subject in chosen:
                found[subject.name, number] = await run(on, subject, pod, number)
    ours = [found["ours", number] for number in (small, large)]
    peers = [found.get(("peer", number)) for number in (small, large)]
    rows = [
        Row(
            f"resident memory, {number} nodes",
            mine.resident,
            bound,
            "MiB",
            peer=peer.resident if peer else None,
            official=earlier,
            note=f"{pod.place}; {mine.private:.1f} MiB of it are backed by no file"
            + (f"; peer: {peer.private:.1f} MiB" if peer else ""),
        )
        for number, mine, peer, bound, earlier in zip(
            (small, large), ours, peers, (SMALL_MIB, LARGE_MIB), ("55.9 MiB", "187.2 MiB"), strict=True
        )
    ]
    starts = [
        Row(f"CPU since the start, {number} nodes", mine.cpu, bound, "s", peer.cpu if peer else None, earlier)
        for number, mine, peer, bound, earlier in zip(
            (small, large), ours, peers, (START_SECONDS, None), ("0.05 s", "1.21 s"), strict=True
        )
    ]
    first, last = peers
    return [
        *rows,
        Row(
            f"CPU to take in {large} nodes and servers",
            ours[1].cpu - ours[0].cpu,
            SECONDS,
            "s",
            peer=last.cpu - first.cpu if first and last else None,
            official="1.2 s",
            note="what it needs more than with the small cluster",
        ),
        *starts,
    ]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--small", type=int, default=SMALL, help=f"the nodes of the small cluster (default: {SMALL})"
    )
    origin(parser)
    parser.add_argument(
        "--large", type=int, default=LARGE, help=f"the nodes of the large cluster (default: {LARGE})"
    )


if __name__ == "__main__":
    sys.exit(main("Memory and CPU", __doc__, measure, options))
