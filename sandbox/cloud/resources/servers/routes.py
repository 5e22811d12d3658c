"""Reading, renaming and deleting servers."""

from __future__ import annotations

from sandbox.cloud.actions import Action
from sandbox.cloud.call import Call
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.collection import Resource, action_reply
from sandbox.cloud.effects import effect
from sandbox.cloud.errors import Protected
from sandbox.cloud.events import announce
from sandbox.cloud.metrics import flat_metrics
from sandbox.cloud.records import Reference
from sandbox.cloud.registry import operation
from sandbox.cloud.reply import Reply
from sandbox.cloud.resources.servers.create import hostname_problem
from sandbox.cloud.resources.servers.power import free_server, set_status
from sandbox.cloud.resources.servers.state import Server, server_wire

SERVERS = Resource(
    "servers",
    Server,
    server_wire,
    filters={"status": lambda _cloud, server: server.status},
    name_problem=hostname_problem,
)
SERVERS.add_reads()
SERVERS.add_actions()


@operation("PUT", "/servers/{id}")
async def update(call: Call) -> Reply:
    """Change name and labels; the machine's own host name stays."""
    server = call.get(Server)
    SERVERS.apply_update(call, server, call.fields())
    await announce("server_changed", call.cloud, server)
    return Reply(200, {"server": SERVERS.show(call, server)})


@operation("DELETE", "/servers/{id}")
async def delete(call: Call) -> Reply:
    """Remove a server; its routes in networks stay, as at Hetzner."""
    server = free_server(call)
    if server.delete_protected:
        raise Protected("server")
    resources = [Reference("server", server.id)]
    action = call.cloud.actions.start("delete_server", call.project, resources, effect="delete_server")
    return await action_reply(call, action, 200)


@effect("delete_server")
async def delete_effect(cloud: Cloud, action: Action) -> None:
    """Remove the machine, then the record and what hangs on it."""
    server = cloud.store.find(Server, action.resources[0].id)
    if server is None:
        return
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
