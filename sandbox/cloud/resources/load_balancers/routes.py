"""Reading, renaming and deleting load balancers."""

from __future__ import annotations

from sandbox.cloud.actions import Action
from sandbox.cloud.call import Call
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.collection import Resource, action_reply
from sandbox.cloud.effects import effect
from sandbox.cloud.errors import Protected
from sandbox.cloud.metrics import flat_metrics
from sandbox.cloud.records import Reference
from sandbox.cloud.registry import operation
from sandbox.cloud.reply import Reply
from sandbox.cloud.resources.load_balancers.create import name_problem
from sandbox.cloud.resources.load_balancers.state import LoadBalancer, load_balancer_wire

LOAD_BALANCERS = Resource("load_balancers", LoadBalancer, load_balancer_wire, name_problem=name_problem)
LOAD_BALANCERS.add_reads()
LOAD_BALANCERS.add_update()
LOAD_BALANCERS.add_actions()

SERIES = {
    "open_connections": ("open_connections",),
    "connections_per_second": ("connections_per_second",),
    "requests_per_second": ("requests_per_second",),
    "bandwidth": ("bandwidth.in", "bandwidth.out"),
}


@operation("DELETE", "/load_balancers/{id}")
async def delete(call: Call) -> Reply:
    """Remove a load balancer; official clients expect an action since the autumn of 2026."""
    balancer = call.get(LoadBalancer)
    call.cloud.actions.check_free("load_balancer", balancer.id)
    if balancer.protected:
        raise Protected("load_balancer")
    resources = [Reference("load_balancer", balancer.id)]
    action = call.cloud.actions.start(
        "delete_load_balancer", call.project, resources, effect="delete_load_balancer"
    )
    return await action_reply(call, action)


@effect("delete_load_balancer")
async def delete_effect(cloud: Cloud, action: Action) -> None:
    """Remove it from the world below, then the record."""
    balancer = cloud.store.find(LoadBalancer, action.resources[0].id)
    if balancer is None:
        return
    async with cloud.exclusive("load_balancer", balancer.id):
        await cloud.backend.delete_load_balancer(balancer.id)
        cloud.applied.pop(("load_balancer", balancer.id), None)
    cloud.store.remove(balancer)


@operation("GET", "/load_balancers/{id}/metrics")
async def metrics(call: Call) -> Reply:
    """Time series of the right shape; the sandbox measures nothing, so all are zero."""
    call.get(LoadBalancer)
    return Reply(200, {"metrics": flat_metrics(call, SERIES)})
