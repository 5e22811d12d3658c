"""Everything that the console page shows, in one answer."""

from __future__ import annotations

from typing import Any

from sandbox.cloud.actions.actions import Action, action_wire
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.resources.load_balancers.state import LoadBalancer, load_balancer_wire
from sandbox.cloud.resources.networks.state import Network, network_wire
from sandbox.cloud.resources.servers.state import Server, address

LATEST_REQUESTS = 60
LATEST_ACTIONS = 25


def overview(cloud: Cloud) -> dict[str, Any]:
    """Servers, networks, load balancers, actions, requests and the remaining quota."""
    now = cloud.now()
    actions = sorted(cloud.store.all(Action), key=lambda action: action.id)[-LATEST_ACTIONS:]
    return {
        "backend": cloud.backend.name,
        "actions_mode": cloud.action_mode,
        "quota": [
            {"project": p, "limit": cloud.limiter.limit, "remaining": cloud.limiter.remaining(p, now)}
            for p in cloud.projects
        ],
        "servers": [_server(cloud, server) for server in cloud.store.all(Server)],
        "networks": [network_wire(cloud, network) for network in cloud.store.all(Network)],
        "load_balancers": [load_balancer_wire(cloud, balancer) for balancer in cloud.store.all(LoadBalancer)],
        "actions": [action_wire(action, now) for action in reversed(actions)],
        "faults": cloud.faults.listing(),
        "counts": dict(cloud.requests.counts.most_common()),
        "requests": cloud.requests.latest(LATEST_REQUESTS, lambda _entry: True),
        "total": cloud.requests.total,
    }


def _server(cloud: Cloud, server: Server) -> dict[str, Any]:
    ipv4 = address(cloud, server.ipv4)
    return {
        "id": server.id,
        "name": server.name,
        "status": server.status,
        "type": server.server_type,
        "location": server.location,
        "ipv4": ipv4.ip if ipv4 else "",
        "private": [{"network": a.network, "ip": a.ip, "status": a.status} for a in server.attachments],
        "locked": cloud.actions.locked("server", server.id),
        "labels": server.labels,
    }
