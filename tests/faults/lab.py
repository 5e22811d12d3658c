"""A small cluster with all of our controllers at work, on the emulated cloud and an API server in memory."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from emulated_cloud import OTHER_TOKEN, TOKEN, EmulatedCloud

from ccm.controllers.node import NodeController, NodeOptions
from ccm.controllers.node_lifecycle import NodeLifecycleController, NodeLifecycleOptions
from ccm.controllers.route import QUEUE as ROUTE_QUEUE
from ccm.controllers.route import RouteController, RouteOptions, parse_cluster_cidrs
from ccm.controllers.service.controller import QUEUE as SERVICE_QUEUE
from ccm.controllers.service.controller import ServiceController, ServiceOptions
from ccm.hetzner import HetznerCloud, open_cloud
from ccm.hetzner.api import Priority
from ccm.kube.backoff import RetryLimiter, TokenBucket
from ccm.kube.informer import Informer
from ccm.kube.objects import Node, ObjectReference, Service
from ccm.kube.queue import WorkQueue
from ccm.testing.memory_transport import MemoryTransport
from tests.faults import facts
from tests.faults.faults import ANSWER_TIMEOUT, STRIKING, WHILE, Fault, rules
from tests.faults.faulty_cloud import LabError, open_emulated_cloud, state
from tests.faults.objects import CLUSTER_CIDR, NODES, SERVICES, node

PERIOD = 0.05
NETWORK = "lab"
FOREIGN_ROUTE = "10.99.0.0/24"
UIDS = {"web": "11111111-2222-3333-4444-555555555555", "other": "99999999-8888-7777-6666-555555555555"}
# Where the CCM takes seconds between two tries, the lab has no time. These are pauses, not behavior.
_SHORT_PAUSES = {
    "ccm.hetzner.api.client.PAUSE": 0.01,
    "ccm.hetzner.routes.PAUSE": 0.01,
    "ccm.hetzner.load_balancers.apply.apply_state.PAUSES": (0.01, 0.02),
    "ccm.hetzner.api.budget.RESERVE": dict.fromkeys(Priority, 0.0),
}


@contextmanager
def short_pauses() -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in _SHORT_PAUSES.items():
            stack.enter_context(patch(name, value))
        yield


class NullRecorder:
    def event(self, reference: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002
        """See :class:`ccm.kube.events.Recorder`."""


@dataclass
class Lab:
    emulator: EmulatedCloud  # the emulated cloud
    cloud: HetznerCloud  # the CCM's side of it
    cluster: MemoryTransport  # the API server
    network: int  # the id of the network with the routes
    token: Path  # the file that the CCM reads its token from
    # names of all servers that there ever were, by id and by private address
    names: dict[int | str, str] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)  # the controllers
    passed: int = 0  # how often faults struck that have passed
    hits: int = 0  # how often faults had struck when all was right

    async def add_server(self, number: int) -> None:
        made = await self.emulator.add_server(f"s{number}", networks=[self.network])
        self.names[made["id"]] = self.names[made["private_net"][0]["ip"]] = made["name"]

    def server(self, name: str) -> int:
        return next(key for key, one in self.names.items() if one == name and isinstance(key, int))

    def put_node(self, number: int, *, ready: bool = True, initialized: bool = True) -> None:
        """The Node of ``s<number>``; whatever else it says already stays."""
        name = f"s{number}"
        item = node(name, number, self.server(name) if initialized else None, ready=ready)
        for old in self.cluster.all(NODES):
            if old["metadata"]["name"] == name:
                kept = [one for one in old["status"].get("conditions", []) if one["type"] != "Ready"]
                item = {
                    **old,
                    "status": {**old["status"], "conditions": [*item["status"]["conditions"], *kept]},
                }
        self.cluster.put(NODES, item)

    def put_service(self, item: dict[str, Any]) -> None:
        """A Service as a person applies it: what the CCM wrote into it stays."""
        for old in self.cluster.all(SERVICES):
            if old["metadata"]["name"] == item["metadata"]["name"]:
                item = {**old, **item, "metadata": {**old["metadata"], **item["metadata"]}}
        self.cluster.put(SERVICES, item)

    def facts(self) -> list[str]:
        (network,), balancers, certificates = state(self.emulator, "network", "load_balancer", "certificate")
        owners = {uid: name for name, uid in UIDS.items()}
        return [
            *(facts.read_node(one, self.names) for one in self.cluster.all(NODES)),
            *(facts.read_service(one) for one in self.cluster.all(SERVICES)),
            *facts.read_routes(network, self.names),
            *(facts.read_balancer(one, self.names) for one in balancers),
            *(facts.read_certificate(one, owners) for one in certificates),
        ]

    async def strike(self, fault: Fault) -> asyncio.Task[None] | None:
        """Let a fault happen from now on; the task ends when it has passed, None if it passes by itself."""
        if fault.foreign_token:
            self.token.write_text(OTHER_TOKEN)
        elif fault.rule:
            for rule in rules(fault):
                await self.emulator.admin("POST", "/faults", rule)
        return asyncio.create_task(self._pass()) if fault.lies else None

    async def _pass(self) -> None:
        ends, gives_up = time.monotonic() + WHILE, time.monotonic() + STRIKING
        while (now := time.monotonic()) < ends or (not await self.struck() and now < gives_up):  # noqa: ASYNC110
            await asyncio.sleep(PERIOD)
        self.token.write_text(TOKEN)
        hits = (await self.emulator.admin("GET", "/faults"))["faults"]
        self.passed += sum(one["hits"] for one in hits)
        await self.emulator.admin("DELETE", "/faults")

    async def struck(self) -> int:
        rules_in_force = (await self.emulator.admin("GET", "/faults"))["faults"]
        strangers = await self.emulator.admin("GET", "/requests/counts?project=elsewhere")
        return self.passed + strangers["total"] + sum(one["hits"] for one in rules_in_force)

    async def until(self, wanted: Sequence[str], seconds: float) -> None:
        """Wait for what is wanted to be so, and to stay so."""
        deadline = time.monotonic() + seconds
        while (wrong := facts.difference(wanted, self.facts())) != "":
            if time.monotonic() > deadline:
                raise NotConverged(f"after {seconds:.0f} s {wrong}")
            await asyncio.sleep(PERIOD / 2)
        self.hits = await self.struck()
        await asyncio.sleep(6 * PERIOD)
        if wrong := facts.difference(wanted, self.facts()):
            raise NotConverged(f"it was right, and then {wrong}")
        if ended := [task.get_name() for task in self.tasks if task.done()]:
            raise NotConverged(f"it ended: {', '.join(ended)}")


class NotConverged(Exception):
    """The CCM did not do what it should; the message says what is missing or not wanted."""


def _retries(name: str) -> WorkQueue:
    return WorkQueue(name, limiter=RetryLimiter(0.05, 0.2, TokenBucket(1000, 1000)))


def start_controllers(cloud: HetznerCloud, cluster: MemoryTransport) -> list[asyncio.Task[None]]:
    """All four controllers with their informers, as the manager starts them but with short periods."""
    nodes, services = Informer(cluster, NODES, Node), Informer(cluster, "/api/v1/services", Service)
    recorder = NullRecorder()
    if cloud.routes is None or cloud.load_balancers is None:
        raise LabError("the cloud was opened without routes or load balancers")
    running = {
        "nodes": nodes,
        "services": services,
        "node controller": NodeController(
            cloud.instances,
            cluster,
            nodes,
            recorder,
            NodeOptions(status_update_frequency=0.5, accepted_age=1.0),
            queue=_retries("node"),
        ),
        "node lifecycle controller": NodeLifecycleController(
            cloud.instances,
            cluster,
            nodes,
            recorder,
            NodeLifecycleOptions(monitor_period=PERIOD, longest_interval=0.2),
        ),
        "service controller": ServiceController(
            cloud.load_balancers,
            cluster,
            services,
            nodes,
            recorder,
            options=ServiceOptions(resync_period=0.5),
            queue=_retries(SERVICE_QUEUE),
        ),
        "route controller": RouteController(
            cloud.routes,
            cluster,
            nodes,
            recorder,
            RouteOptions(parse_cluster_cidrs(CLUSTER_CIDR), 2 * PERIOD, accepted_age=0.1),
            queue=_retries(ROUTE_QUEUE),
        ),
    }
    return [asyncio.create_task(one.run(), name=name) for name, one in running.items()]


@asynccontextmanager
async def open_lab(folder: Path, *, short_timeout: bool = False) -> AsyncIterator[Lab]:
    """A cloud with a network, and a cluster without anything; no controller runs yet."""
    async with open_emulated_cloud() as emulator:
        network = await emulator.network(NETWORK)
        token = folder / "token"
        token.write_text(TOKEN)
        cloud = open_cloud(environment(emulator, token))
        if short_timeout:
            cloud.api._timeout = (ANSWER_TIMEOUT, ANSWER_TIMEOUT)
        await cloud.start()
        lab = Lab(emulator, cloud, MemoryTransport(), network, token)
        try:
            yield lab
        finally:
            for task in lab.tasks:
                task.cancel()
            await asyncio.gather(*lab.tasks, return_exceptions=True)
            await cloud.close()


def environment(emulator: EmulatedCloud, token: Path) -> dict[str, str]:
    return {
        "HCLOUD_ENDPOINT": emulator.endpoint,
        "HCLOUD_TOKEN_FILE": str(token),
        "HCLOUD_NETWORK": NETWORK,
        "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
        "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1",
        "HCLOUD_METRICS_ENABLED": "false",
        "CCM_CLUSTER_ID": "lab",
    }
