"""Reading, renaming and deleting load balancers."""

from __future__ import annotations

from sandbox.cloud.backend import BackendError
from sandbox.cloud.call import Call, Reply
from sandbox.cloud.collection import Resource
from sandbox.cloud.errors import ApiError, Protected
from sandbox.cloud.metrics import flat_metrics
from sandbox.cloud.registry import operation
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
    """Remove a load balancer."""
    balancer, cloud = call.get(LoadBalancer), call.cloud
    cloud.actions.check_free("load_balancer", balancer.id)
    if balancer.protected:
        raise Protected("load_balancer")
    cloud.store.remove(balancer)
    try:
        async with cloud.exclusive("load_balancer", balancer.id):
            await cloud.backend.delete_load_balancer(balancer.id)
            cloud.applied.pop(("load_balancer", balancer.id), None)
    except BackendError as error:
        cloud.store.put(balancer)
        raise ApiError("server_error", str(error)) from error
    return Reply(204, None)


@operation("GET", "/load_balancers/{id}/metrics")
async def metrics(call: Call) -> Reply:
    """Time series of the right shape; the sandbox measures nothing, so all are zero."""
    call.get(LoadBalancer)
    return Reply(200, {"metrics": flat_metrics(call, SERIES)})
