"""Effects of primary IPs' actions on the backend, and the release from deleted resources."""

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect
from hetzner_emulator.actions.events import announce, reaction
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.primary_ips import PrimaryIp
from hetzner_emulator.models.servers import Server, server_spec
from hetzner_emulator.state.records import Record


@effect("assign_primary_ip", PrimaryIp)
async def _assign(cloud: Cloud, ip: PrimaryIp, action: Action) -> None:
    await _set(cloud, ip, action, present=True)


@effect("unassign_primary_ip", PrimaryIp)
async def _unassign(cloud: Cloud, ip: PrimaryIp, action: Action) -> None:
    await _set(cloud, ip, action, present=False)


async def _set(cloud: Cloud, ip: PrimaryIp, action: Action, *, present: bool) -> None:
    server = cloud.store.get(Server, action.project, action.arguments["server"])
    ip.assignee, ip.assignee_type = server.id if present else None, "server"
    setattr(server, ip.type, ip.id if present else None)
    cloud.store.put(ip)
    cloud.store.put(server)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.create_machine(server_spec(cloud, server))
    await announce("server_changed", cloud, server)


@reaction("server_deleted")
@reaction("load_balancer_deleted")
async def _release(cloud: Cloud, holder: Record) -> None:
    """Delete or release the addresses of a deleted server or load balancer."""
    for ip in list(cloud.store.lookup("assignee", holder.id)):
        if not isinstance(ip, PrimaryIp):
            continue
        ip.assignee = None
        if ip.auto_delete and not ip.protected:
            cloud.store.remove(ip)
        else:
            cloud.store.put(ip)
