"""Effects of volumes' actions on the backend, and the release from a deleted server."""

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect, undo
from hetzner_emulator.actions.events import reaction
from hetzner_emulator.backend import AttachedVolume
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.servers import Server
from hetzner_emulator.models.volumes import Volume, volume_spec


@effect("create_volume", Volume)
async def _create(cloud: Cloud, volume: Volume, _action: Action) -> None:
    async with cloud.exclusive("volume", volume.id):
        await cloud.backend.put_volume(volume_spec(volume))
    volume.status = "available"
    cloud.store.put(volume)


@undo("create_volume", Volume)
async def _discard(cloud: Cloud, volume: Volume, _action: Action) -> None:
    cloud.store.remove(volume)


@effect("attach_volume", Volume)
async def _attach(cloud: Cloud, volume: Volume, action: Action) -> None:
    server = cloud.store.get(Server, action.project, action.resources[1].id)
    wanted = AttachedVolume(volume_spec(volume), action.arguments["automount"])
    async with cloud.exclusive("server", server.id), cloud.exclusive("volume", volume.id):
        await cloud.backend.attach_volume(server.id, wanted)
    volume.server, volume.wanted_by, volume.automount = server.id, None, wanted.automount
    cloud.store.put(volume)


@undo("attach_volume", Volume)
async def _cancel_reservation(cloud: Cloud, volume: Volume, _action: Action) -> None:
    volume.wanted_by = None
    cloud.store.put(volume)


@effect("detach_volume", Volume)
async def _detach(cloud: Cloud, volume: Volume, action: Action) -> None:
    server = action.resources[1].id
    async with cloud.exclusive("server", server), cloud.exclusive("volume", volume.id):
        await cloud.backend.detach_volume(server, volume.id)
    volume.server, volume.automount = None, False
    cloud.store.put(volume)


@effect("resize_volume", Volume)
async def _resize(cloud: Cloud, volume: Volume, action: Action) -> None:
    wanted = volume_spec(volume, action.arguments["size"])
    async with cloud.exclusive("volume", volume.id):
        await cloud.backend.put_volume(wanted)
    volume.size = wanted.size
    cloud.store.put(volume)


@reaction("server_deleted")
async def _detach_deleted(cloud: Cloud, server: Server) -> None:
    for volume in list(cloud.store.lookup("volumes_of", server.id)):
        if isinstance(volume, Volume):
            volume.server = volume.wanted_by = None
            cloud.store.put(volume)
