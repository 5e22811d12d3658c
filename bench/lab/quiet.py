"""What happens in an hour of :mod:`bench.lab.hours`. Imported only after the clock was replaced."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog

from bench.lab.cloud import Cloud, Server
from bench.lab.subject import environment, flags
from ccm.kube.objects import Node
from ccm.manager.clouds import open_cloud
from ccm.manager.flags import FLAGS, parse_flags
from ccm.manager.manager import Manager
from ccm.manager.metrics import Metrics
from ccm.manager.options import Options
from ccm.manager.serving import Connections
from ccm.testing.memory_transport import MemoryTransport
from ccm.version import VERSION

NODES, SERVICES = "/api/v1/nodes", "/api/v1/namespaces/default/services"
PREFIX = "load-balancer.hetzner.cloud/"
POOL = "pool"
BALANCERS, PORTS, TARGETS = 20, 2, 25
SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
HOUR = 3600.0
SETTLE = 900.0
STATUS_PERIOD = 300.0  # a kubelet's, while nothing changes
NOTICED = 50.0  # seconds after which Kubernetes declares a silent node not ready


def node_of(server: Server, *, chosen: bool) -> dict[str, Any]:
    """An initialized Node."""
    return {
        "metadata": {"name": server.name, "labels": {POOL: "edge"} if chosen else {}},
        "spec": {"providerID": f"hcloud://{server.id}"},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": server.name},
                {"type": "ExternalIP", "address": server.public_ip},
            ],
            "conditions": conditions("True", 0),
        },
    }


def conditions(ready: str, beat: int) -> list[dict[str, str]]:
    """What a kubelet, or for it the node controller, says."""
    return [{"type": "Ready", "status": ready, "reason": "Kubelet", "lastHeartbeatTime": str(beat)}]


def service(number: int) -> dict[str, Any]:
    """A Service that wants a load balancer."""
    ports = [{"port": 80 + one, "nodePort": 30080 + one, "protocol": "TCP"} for one in range(PORTS)]
    metadata = {"name": f"web-{number:02}", "annotations": {PREFIX + "node-selector": f"{POOL}=edge"}}
    return {"metadata": metadata, "spec": {"type": "LoadBalancer", "ports": ports}}


@asynccontextmanager
async def running(base: str, servers: list[Server], balancers: int) -> AsyncIterator[MemoryTransport]:
    """The CCM in a cluster of these servers, in memory."""
    logging.disable(logging.CRITICAL)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    transport = MemoryTransport()
    for index, server in enumerate(servers):
        transport.put(NODES, node_of(server, chosen=index < TARGETS))
    for number in range(balancers):
        transport.put(SERVICES, service(number))
    metrics = Metrics(VERSION)
    variables = environment(f"{base}/v1", network=False)
    manager = Manager(
        Options(parse_flags(FLAGS, flags(None, routes=False))),
        open_cloud("hcloud", variables, metrics.registry),
        Connections(transport, transport, transport, transport),
        metrics,
        identity="bench",
    )
    tasks = [
        asyncio.create_task(manager.run()),
        asyncio.create_task(heartbeats(transport, [server.name for server in servers])),
    ]
    try:
        yield transport
        if tasks[0].done():
            tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def heartbeats(transport: MemoryTransport, names: list[str]) -> None:
    """Every kubelet says every five minutes that it lives, unless its node is not ready."""
    beat = 0
    while True:
        beat += 1
        for name in names:
            await asyncio.sleep(STATUS_PERIOD / len(names))
            item = transport.read(f"{NODES}/{name}")
            if item["status"]["conditions"][0]["status"] == "True":
                await say_ready(transport, name, "True", beat)


async def say_ready(transport: MemoryTransport, name: str, ready: str, beat: int) -> None:
    """Write the condition Ready."""
    body = {"status": {"conditions": conditions(ready, beat)}}
    await transport.patch(f"{NODES}/{name}/status", body, Node)


async def idle(base: str) -> dict[str, Any]:
    """Nothing happens for an hour."""
    cloud = Cloud(base)
    async with running(base, await asyncio.to_thread(cloud.servers), BALANCERS):
        await asyncio.sleep(SETTLE)
        found = await asyncio.to_thread(cloud.load_balancers)
        ready = [one for one in found if len(one["targets"]) == TARGETS and len(one["services"]) == PORTS]
        if len(ready) != BALANCERS:
            raise RuntimeError(f"{len(ready)} of {BALANCERS} load balancers are ready")
        await asyncio.to_thread(cloud.forget)
        await asyncio.sleep(HOUR)
        return {"counts": await asyncio.to_thread(cloud.counts)}


async def shutdown(base: str) -> dict[str, Any]:
    """One machine is off for an hour."""
    cloud = Cloud(base)
    servers = await asyncio.to_thread(cloud.servers)
    victim = servers[len(servers) // 2]
    loop = asyncio.get_running_loop()
    async with running(base, servers, 0) as transport:
        await asyncio.sleep(SETTLE)
        path = f"/servers/{victim.id}/actions"
        await asyncio.to_thread(cloud.call, "POST", f"{path}/poweroff")
        await asyncio.to_thread(cloud.forget)
        off = loop.time()
        await asyncio.sleep(NOTICED)
        await say_ready(transport, victim.name, "Unknown", 0)
        tainted = await until(lambda: is_tainted(transport, victim.name))
        await asyncio.sleep(off + HOUR - loop.time())
        counts = await asyncio.to_thread(cloud.counts)
        await asyncio.to_thread(cloud.call, "POST", f"{path}/poweron")
        await say_ready(transport, victim.name, "True", 1)
        untainted = await until(lambda: not is_tainted(transport, victim.name))
        return {"counts": counts, "tainted": tainted, "untainted": untainted}


def is_tainted(transport: MemoryTransport, name: str) -> bool:
    """Whether a Node has the taint of a machine that is off."""
    taints = transport.read(f"{NODES}/{name}")["spec"].get("taints", [])
    return any(taint["key"] == SHUTDOWN for taint in taints)


async def until(true: Callable[[], bool]) -> float:
    """Seconds until something is so; at most ten minutes."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while not true() and loop.time() - started < 600:  # noqa: ASYNC110 - nobody sets an event for it
        await asyncio.sleep(0.1)
    return round(loop.time() - started, 1)


SCENARIOS: dict[str, Callable[[str], Coroutine[Any, Any, dict[str, Any]]]] = {
    "idle": idle,
    "shutdown": shutdown,
}
