"""Deleting servers, and their metrics."""

from __future__ import annotations

from sandbox.cloud.actions.actions import Action
from sandbox.cloud.actions.effects import removal
from sandbox.cloud.actions.events import announce
from sandbox.cloud.api.call import Call
from sandbox.cloud.api.metrics import flat_metrics
from sandbox.cloud.api.registry import operation
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.errors import Protected
from sandbox.cloud.resources.servers.power import set_status
from sandbox.cloud.resources.servers.state import Server
from sandbox.cloud.wire.reply import Reply


@operation("DELETE", "/servers/{id}")
async def delete(call: Call) -> Reply:
    """Remove a server; its routes in networks stay, as at Hetzner."""
    server = call.get_free(Server)
    if server.delete_protected:
        raise Protected("server")
    return await call.answer(call.start("delete_server", server, effect="delete_server"), 200)


@removal("delete_server", Server)
async def delete_effect(cloud: Cloud, server: Server, _action: Action) -> None:
    """Remove the machine, then the record and what hangs on it."""
    set_status(cloud, server, "deleting")
    async with cloud.exclusive("server", server.id):
        await cloud.backend.delete_machine(server.id)
    cloud.store.remove(server)
    await announce("server_deleted", cloud, server)


SERIES = {
    "cpu": ("cpu",),
    "disk": ("disk.0.iops.read", "disk.0.iops.write", "disk.0.bandwidth.read", "disk.0.bandwidth.write"),
    "network": ("network.0.pps.in", "network.0.pps.out", "network.0.bandwidth.in", "network.0.bandwidth.out"),
}


@operation("GET", "/servers/{id}/metrics")
async def metrics(call: Call) -> Reply:
    """Time series of the right shape; the sandbox measures nothing, so all are zero."""
    call.get(Server)
    return Reply(200, {"metrics": flat_metrics(call, SERIES)})
