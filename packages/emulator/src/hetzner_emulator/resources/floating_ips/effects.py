"""Effects of floating IPs' actions on the backend, and the release from a deleted server."""

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect
from hetzner_emulator.actions.events import reaction
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.floating_ips import FloatingIp, floating_ips_of
from hetzner_emulator.models.servers import Server


@effect("assign_floating_ip", FloatingIp)
async def _assign(cloud: Cloud, ip: FloatingIp, action: Action) -> None:
    server = cloud.store.get(Server, action.project, action.resources[1].id)
    if ip.server is not None:
        await _release(cloud, ip, ip.server)
        ip.server = None
        cloud.store.put(ip)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.assign_floating_ip(server.id, ip.ip)
    ip.server = server.id
    cloud.store.put(ip)


@effect("unassign_floating_ip", FloatingIp)
async def _unassign(cloud: Cloud, ip: FloatingIp, action: Action) -> None:
    await _release(cloud, ip, action.resources[1].id)


async def _release(cloud: Cloud, ip: FloatingIp, server: int) -> None:
    async with cloud.exclusive("server", server):
        await cloud.backend.unassign_floating_ip(server, ip.ip)
    ip.server = None
    cloud.store.put(ip)


@reaction("server_deleted")
async def _unassign_deleted(cloud: Cloud, server: Server) -> None:
    for ip in floating_ips_of(cloud, server.id):
        ip.server = None
        cloud.store.put(ip)
