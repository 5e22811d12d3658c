"""Requests that load balancers cost, counted by the emulated cloud.

``python bench/load_balancers.py [--actions instant|realistic] [--json]``. The service controller runs on an
API server in memory, Hetzner's load balancers on the emulated cloud. What the official CCM needs stands next
to it by its formulas (P ports, T targets, a polls for each change), not measured here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import structlog
from aiohttp import web

from ccm.controllers.service.controller import ServiceController, ServiceOptions
from ccm.hetzner import HetznerCloud, open_cloud
from ccm.hetzner.load_balancers.reader import PREFIX
from ccm.kube.informer import Informer
from ccm.kube.memory import MemoryTransport
from ccm.kube.objects import Node, ObjectReference, Service
from sandbox.cloud.app import create_app
from sandbox.cloud.backend import RecordsBackend
from sandbox.cloud.config import CloudConfig

TOKEN = "b" * 64
SERVICES, PORTS, TARGETS = 20, 2, 10
NODES_PATH, SHOP = "/api/v1/nodes", "/api/v1/namespaces/shop/services"
POLLS = "GET /actions"


class Silence:
    """A recorder that drops Events."""

    def event(self, reference: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002
        """See :class:`ccm.kube.events.Recorder`."""


@dataclass
class Row:
    """One operation and its cost."""

    operation: str
    official: str
    at_most: str
    requests: int
    polls: int
    seconds: float
    met: bool


@dataclass
class Bench:
    """Everything that runs."""

    base: str
    session: aiohttp.ClientSession
    cloud: HetznerCloud
    transport: MemoryTransport
    controller: ServiceController
    shift: float = 0.0

    async def admin(self, method: str, path: str) -> Any:
        """A call to the emulated cloud's own controls."""
        async with self.session.request(method, f"{self.base}/_sandbox{path}") as answer:
            return await answer.json()

    async def call(self, method: str, path: str, body: object = None) -> Any:
        """A call to the API beside the code under test."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with self.session.request(
            method, f"{self.base}/v1{path}", json=body, headers=headers
        ) as answer:
            return await answer.json()

    async def add_node(self, name: str, network: int) -> None:
        """A server, and its Node once it runs."""
        body = {
            "name": name,
            "server_type": "cpx22",
            "image": "debian-12",
            "location": "fsn1",
            "networks": [network],
        }
        server = (await self.call("POST", "/servers", body))["server"]
        status = ""
        while status != "running":
            status = (await self.call("GET", f"/servers/{server['id']}"))["server"]["status"]
            await asyncio.sleep(0.1)
        item = {"metadata": {"name": name}, "spec": {"providerID": f"ccm-from-scratch://{server['id']}"}}
        self.transport.put(NODES_PATH, item)

    def put_service(self, index: int) -> None:
        """A Service that wants a load balancer."""
        ports = [
            {"port": 80 + number, "nodePort": 30080 + number, "protocol": "TCP"} for number in range(PORTS)
        ]
        metadata = {"name": f"web-{index:02}", "annotations": {PREFIX + "use-private-ip": "true"}}
        self.transport.put(SHOP, {"metadata": metadata, "spec": {"type": "LoadBalancer", "ports": ports}})

    def age(self, seconds: float) -> None:
        """Let the views of the cloud grow old."""
        self.shift += seconds

    async def idle(self) -> None:
        """Wait until the controller has nothing to do."""
        calm = 0
        while calm < 5:
            await asyncio.sleep(0.02)
            state = [self.controller.queue.statistics(), self.controller.node_queue.statistics()]
            calm = 0 if any(one.waiting or one.processing or one.delayed for one in state) else calm + 1

    async def measure(
        self,
        operation: str,
        official: str,
        at_most: int,
        work: Callable[[], object],
        *,
        polls_extra: bool = False,
    ) -> Row:
        """Do something, wait until all is as it should be, and count."""
        await self.idle()
        await self.admin("DELETE", "/requests")
        started = time.monotonic()
        result = work()
        if asyncio.iscoroutine(result):
            await result
        await self.idle()
        counts = (await self.admin("GET", "/requests/counts"))["operations"]
        polls = counts.get(POLLS, 0)
        own = {
            name: n
            for name, n in counts.items()
            if not (name.startswith("POST /servers") or name == "GET /servers/{id}")
        }
        requests = sum(own.values()) - polls
        limit = f"{at_most}" + (" + polls" if polls_extra else "")
        met = requests + (0 if polls_extra else polls) <= at_most
        return Row(operation, official, limit, requests, polls, time.monotonic() - started, met)


@asynccontextmanager
async def running(actions: str) -> AsyncIterator[Bench]:
    """Cloud, API server and controller."""
    config = CloudConfig(tokens={TOKEN: "bench"}, rate_limit=0, actions=actions)  # type: ignore[arg-type]
    runner = web.AppRunner(create_app(config, RecordsBackend()), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    environment = {
        "HCLOUD_TOKEN": TOKEN,
        "HCLOUD_ENDPOINT": f"{base}/v1",
        "HCLOUD_NETWORK": "bench",
        "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
        "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1",
        "CCM_CLUSTER_ID": "bench",
    }
    cloud = open_cloud(environment)
    transport = MemoryTransport()
    services, nodes = Informer(transport, "/api/v1/services", Service), Informer(transport, NODES_PATH, Node)
    assert cloud.load_balancers is not None
    options = ServiceOptions(concurrent_syncs=SERVICES, resync_period=0)
    controller = ServiceController(
        cloud.load_balancers, transport, services, nodes, Silence(), options=options
    )
    async with aiohttp.ClientSession() as session:
        bench = Bench(base, session, cloud, transport, controller)
        for view in (*cloud.load_balancers.views, cloud.servers):
            view._clock = lambda: time.monotonic() + bench.shift  # noqa: SLF001 - it is to grow old
        tasks = [asyncio.create_task(work) for work in (services.run(), nodes.run(), controller.run())]
        try:
            yield bench
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await cloud.close()
    await runner.cleanup()


async def rows(actions: str) -> list[Row]:
    """All measurements."""
    async with running(actions) as bench:
        subnet = {"type": "cloud", "network_zone": "eu-central", "ip_range": "10.0.0.0/24"}
        body = {"name": "bench", "ip_range": "10.0.0.0/8", "subnets": [subnet]}
        network = (await bench.call("POST", "/networks", body))["network"]["id"]
        await bench.cloud.start()
        await asyncio.gather(*(bench.add_node(f"node-{index:02}", network) for index in range(TARGETS)))
        found: list[Row] = []
        create = f"create, P={PORTS}, T={TARGETS}, private network"
        found.append(await bench.measure(create, ">= 35", 6, lambda: bench.put_service(0)))
        found.append(
            await bench.measure("nothing to change, view fresh", "2+P(1+a)", 0, bench.controller.resync)
        )
        bench.age(3600)
        found.append(
            await bench.measure("nothing to change, view stale", "2+P(1+a)", 1, bench.controller.resync)
        )
        for index in range(1, SERVICES):
            bench.put_service(index)
        await bench.idle()
        bench.age(3600)
        text = f"one node added, {SERVICES} Services x {PORTS} ports"
        found.append(
            await bench.measure(
                text, ">= 140", SERVICES + 2, lambda: bench.add_node("one-more", network), polls_extra=True
            )
        )

        async def hour() -> None:
            for _ in range(12):
                bench.age(300)
                bench.controller.resync()
                await bench.idle()

        found.append(
            await bench.measure(
                f"steady state, {SERVICES} load balancers, one hour", "sweeps never", 12, hour
            )
        )
        found.append(
            await bench.measure(
                "delete one", "3", 3, lambda: bench.transport.remove(f"{SHOP}/web-00"), polls_extra=True
            )
        )
        left = (await bench.call("GET", "/load_balancers?per_page=50"))["load_balancers"]
        assert len(left) == SERVICES - 1, f"{len(left)} load balancers are left"
        assert all(len(one["targets"]) == TARGETS + 1 for one in left), "some load balancer lacks a target"
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", choices=("instant", "realistic"), default="instant")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    found = asyncio.run(rows(arguments.actions))
    if arguments.json:
        print(json.dumps([vars(row) for row in found], indent=1))
    else:
        print(f"Requests to the cloud, actions {arguments.actions} (official: by formula, not measured)")
        print(
            f"{'operation':<48} {'official':>12} {'ours at most':>12} {'ours':>5} {'polls':>6} {'seconds':>8}"
        )
        for row in found:
            verdict = "" if row.met else "  MISSED"
            print(
                f"{row.operation:<48} {row.official:>12} {row.at_most:>12} {row.requests:>5} {row.polls:>6} "
                f"{row.seconds:>8.2f}{verdict}"
            )
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
