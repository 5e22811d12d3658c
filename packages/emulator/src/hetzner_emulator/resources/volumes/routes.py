"""Operations on volumes; those that concern a server, too, are among the servers'."""

from __future__ import annotations

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect
from hetzner_emulator.actions.events import reaction
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource
from hetzner_emulator.backend import BackendError
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, Protected
from hetzner_emulator.resources.volumes.state import LARGEST, Volume, name_problem, volume_spec, volume_wire
from hetzner_emulator.state.records import Record
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply

VOLUMES = Resource(
    "volumes",
    Volume,
    volume_wire,
    filters={"status": lambda _cloud, volume: volume.status},
    longest_name=64,
    name_problem=name_problem,
    deletes=False,
)
VOLUMES.register()


@operation("DELETE", "/volumes/{id}")
async def delete(call: Call) -> Reply:
    """Destroy a volume that no server has, with its data."""
    volume, cloud = call.get_free(Volume), call.cloud
    if volume.protected:
        raise Protected("volume")
    if volume.server is not None:
        # Hetzner's document names no code for this.
        raise ApiError("resource_in_use", f"volume with ID '{volume.id}' is still attached to a server")
    cloud.store.remove(volume)
    try:
        await cloud.backend.delete_volume(volume.id)
    except BackendError as error:
        cloud.store.put(volume)
        raise ApiError("service_error", str(error)) from error
    return Reply(204, None)


@VOLUMES.action("change_protection")
async def change_protection(call: Call, volume: Volume, fields: Fields) -> Reply:
    """Protect against deletion, or not."""
    volume.protected = fields.flag("delete", volume.protected)
    fields.check()
    return await call.changed("change_protection", volume)


@VOLUMES.action("resize")
async def resize(call: Call, volume: Volume, fields: Fields) -> Reply:
    """Make a volume larger; its file system is the server's affair."""
    size = fields.number("size", required=True, least=volume.size + 1, most=LARGEST)
    fields.check()
    return await call.act("resize_volume", volume, effect="resize_volume", size=size)


@effect("resize_volume", Volume)
async def resize_effect(cloud: Cloud, volume: Volume, action: Action) -> None:
    """Make the disk larger."""
    wanted = volume_spec(volume, action.arguments["size"])
    async with cloud.exclusive("volume", volume.id):
        await cloud.backend.put_volume(wanted)
    volume.size = wanted.size
    cloud.store.put(volume)


@reaction("server_deleted")
async def release(cloud: Cloud, server: Record) -> None:
    """A deleted server's volumes stay, attached to nothing."""
    for volume in list(cloud.store.lookup("volumes_of", server.id)):
        if isinstance(volume, Volume):
            volume.server = volume.wanted_by = None
            cloud.store.put(volume)
