"""An hour with a kubelet or a tenant that means harm. Imported only after the clock was replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from bench.lab.cloud import Cloud, Server
from bench.lab.quiet import HOUR, NODES, POOL, SETTLE, Cluster, running, service

VPN = "vpn"  # a server of the project that is no Node, with a route that the operator made
ROUTE = "192.168.0.0/16"
BALANCERS = 3
LOUD, QUIET = "/api/v1/namespaces/loud/services", "/api/v1/namespaces/quiet/services"
AT_ONCE = 40
TAINT = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}


async def kubelet(base: str) -> dict[str, Any]:
    """Root on one node registers Nodes with any content, without pause."""
    cloud = Cloud(base)
    everyone = await asyncio.to_thread(cloud.servers)
    [vpn] = [server for server in everyone if server.name == VPN]
    servers = [server for server in everyone if server is not vpn]
    network = (await asyncio.to_thread(cloud.network))["id"]
    body = {"destination": ROUTE, "gateway": vpn.private_ip}
    await asyncio.to_thread(cloud.call, "POST", f"/networks/{network}/actions/add_route", body)
    async with running(base, servers, BALANCERS, network=True) as cluster:
        await asyncio.sleep(SETTLE)
        before = await _routes(cloud)
        await asyncio.to_thread(cloud.forget)
        await _register(cluster, servers, vpn)
        after = await _routes(cloud)
        names = {server.name for server in servers}
        balancers = await asyncio.to_thread(cloud.load_balancers)
        targets = {one["server"]["id"] for balancer in balancers for one in balancer["targets"]}
        return {
            "routes": len(before ^ after),
            "made": len(before),
            "nodes": sum(name in names for name in _without_network(cluster)),
            "targets": len(targets - {server.id for server in servers}),
            "served": len(targets),
            "counts": await asyncio.to_thread(cloud.counts),
        }


async def _register(cluster: Cluster, servers: list[Server], vpn: Server) -> None:
    """Nodes that claim what others have, and one each ten seconds that no server has."""
    own, claims = servers[0], [(ROUTE, servers[0]), ("10.244.77.0/24", vpn), ("10.244.0.0/16", vpn)]
    for number, server in enumerate(servers):
        claims += [(f"10.244.{number}.0/24", one) for one in (own, vpn, server)]
        claims.append((f"10.244.{number}.0/25", vpn))
    for number, (cidr, server) in enumerate(claims):
        _invent(cluster, f"aaa-{number}", server.private_ip, cidr, f"hcloud://{server.id}")
    loop = asyncio.get_running_loop()
    ends, number = loop.time() + HOUR, 0
    while loop.time() < ends:
        await asyncio.sleep(10)
        number += 1
        _invent(cluster, f"nobody-{number}", f"10.0.9.{number % 250}", "", "", taints=[TAINT])
        _invent(cluster, "aaa-1", f"10.0.8.{number % 250}", "10.244.77.0/24", f"hcloud://{vpn.id}")


def _invent(cluster: Cluster, name: str, address: str, cidr: str, provider_id: str, **spec: Any) -> None:
    ranges = {"podCIDR": cidr, "podCIDRs": [cidr]} if cidr else {}
    known = {"providerID": provider_id} if provider_id else {}
    item = {
        "metadata": {"name": name, "labels": {POOL: "edge"}},
        "spec": {**ranges, **known, **spec},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    cluster.transport.put(NODES, item)


async def _routes(cloud: Cloud) -> set[tuple[str, str]]:
    network = await asyncio.to_thread(cloud.network)
    return {(one["destination"], one["gateway"]) for one in network["routes"]}


def _without_network(cluster: Cluster) -> list[str]:
    return [
        item["metadata"]["name"]
        for item in cluster.transport.all(NODES)
        if any(
            (one["type"], one["status"]) == ("NetworkUnavailable", "True")
            for one in item["status"].get("conditions", [])
        )
    ]


async def tenant(base: str) -> dict[str, Any]:
    """A tenant makes many Services at once, and then makes and deletes others for an hour."""
    cloud = Cloud(base)
    servers = await asyncio.to_thread(cloud.servers)
    async with running(base, servers, 0) as cluster:
        await asyncio.sleep(SETTLE)
        for number in range(AT_ONCE):
            cluster.transport.put(LOUD, _service(f"many-{number}"))
        uid = cluster.transport.put(QUIET, _service("web"))["metadata"]["uid"]
        await _until(lambda: _served(cluster, LOUD) + _served(cluster, QUIET) > AT_ONCE)
        # Requests take no time on this clock, so the order tells who waited for whom.
        made = {one["id"]: one["labels"] for one in await asyncio.to_thread(cloud.load_balancers)}
        [own] = [number for number, labels in made.items() if uid in labels.values()]
        before = sum(number < own for number in made)
        await asyncio.sleep(SETTLE)
        for number in range(AT_ONCE):
            await cluster.transport.delete(f"{LOUD}/many-{number}")
        await asyncio.sleep(HOUR)
        await asyncio.to_thread(cloud.forget)
        loop = asyncio.get_running_loop()
        ends, number = loop.time() + HOUR, 0
        while loop.time() < ends:
            number += 1
            cluster.transport.put(LOUD, _service(f"web-{number}"))
            await asyncio.sleep(7)
            await cluster.transport.delete(f"{LOUD}/web-{number}")
        counts = await asyncio.to_thread(cloud.counts)
        started = loop.time()
        cluster.transport.put(QUIET, _service("late"))
        await _until(lambda: _served(cluster, QUIET) > 1)
        return {"before": before, "counts": counts, "rounds": number, "seconds": loop.time() - started}


def _service(name: str) -> dict[str, Any]:
    item = service(0)
    return {**item, "metadata": {**item["metadata"], "name": name}}


def _served(cluster: Cluster, path: str) -> int:
    """How many Services of a namespace have an address."""
    found = cluster.transport.all(path)
    return sum(bool(one.get("status", {}).get("loadBalancer", {}).get("ingress")) for one in found)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(HOUR):
        while not true():  # noqa: ASYNC110 - nobody sets an event for it
            await asyncio.sleep(0.01)


SCENARIOS: dict[str, Callable[[str], Coroutine[Any, Any, dict[str, Any]]]] = {
    "kubelet": kubelet,
    "tenant": tenant,
}
