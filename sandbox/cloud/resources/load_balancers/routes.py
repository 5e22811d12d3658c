"""Deleting load balancers, and their metrics."""

from __future__ import annotations

from sandbox.cloud.actions.actions import Action
from sandbox.cloud.actions.effects import removal
from sandbox.cloud.api.call import Call
from sandbox.cloud.api.metrics import flat_metrics
from sandbox.cloud.api.registry import operation
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.errors import Protected
from sandbox.cloud.resources.load_balancers.state import LoadBalancer
from sandbox.cloud.wire.reply import Reply

SERIES = {
    "open_connections": ("open_connections",),
    "connections_per_second": ("connections_per_second",),
    "requests_per_second": ("requests_per_second",),
    "bandwidth": ("bandwidth.in", "bandwidth.out"),
}


@operation("DELETE", "/load_balancers/{id}")
async def delete(call: Call) -> Reply:
    """Remove a load balancer; official clients expect an action since the autumn of 2026."""
    balancer = call.get_free(LoadBalancer)
    if balancer.protected:
        raise Protected("load_balancer")
    return await call.act("delete_load_balancer", balancer, effect="delete_load_balancer")


@removal("delete_load_balancer", LoadBalancer)
async def delete_effect(cloud: Cloud, balancer: LoadBalancer, _action: Action) -> None:
    """Remove it from the world below, then the record."""
    async with cloud.exclusive("load_balancer", balancer.id):
        await cloud.backend.delete_load_balancer(balancer.id)
        cloud.applied.pop(("load_balancer", balancer.id), None)
    cloud.store.remove(balancer)


@operation("GET", "/load_balancers/{id}/metrics")
async def metrics(call: Call) -> Reply:
    """Time series of the right shape; the sandbox measures nothing, so all are zero."""
    call.get(LoadBalancer)
    return Reply(200, {"metrics": flat_metrics(call, SERIES)})
