"""Images of servers' disks: making them, and the option of backups."""

from __future__ import annotations

import logging

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect, undo
from hetzner_emulator.actions.events import reaction
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.resource import created
from hetzner_emulator.backend import BackendError
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.images import Snapshot, backups_of, image_by_id
from hetzner_emulator.models.server_types import SERVER_TYPES
from hetzner_emulator.models.servers import Server
from hetzner_emulator.resources.images.resource import SNAPSHOTS, check_fields, remove
from hetzner_emulator.resources.servers.resource import SERVERS
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply

log = logging.getLogger(__name__)

BACKUP_WINDOW = "22-02"
BACKUP_SLOTS = 7
"""https://docs.hetzner.com/cloud/servers/backups-snapshots/overview: the oldest backup goes for a new one."""


@SERVERS.action("create_image")
async def create_image(call: Call, server: Server, fields: Fields) -> Reply:
    """Copy the disk into a snapshot, or into a backup that goes with the server."""
    kind, description, labels = check_fields(fields)
    if kind == "backup" and server.backup_window is None:
        # Hetzner's document names no code for this.
        raise ApiError("invalid_input", "backups are not enabled for the server")
    call.cloud.check_limit("images", call.cloud.store.count(Snapshot, call.project))
    origin = image_by_id(call.cloud, server.image)
    image = SNAPSHOTS.new(
        call,
        "",
        labels,
        type=kind,
        description=description or f"{kind} of {server.name}",
        architecture=SERVER_TYPES.known(server.server_type).architecture,
        source=server.id,
        source_name=server.name,
        bound_to=server.id if kind == "backup" else None,
        flavor=origin.flavor if origin else "unknown",
        version=origin.version if origin else "",
        disk_size=server.disk,
    )
    call.cloud.store.put(image)
    command = "create_image"
    (wire,) = await call.wires(call.start(command, server, image, effect=command, locks=(server, image)))
    return created("image", SNAPSHOTS.show(call, image), action=wire)


@effect("create_image", Server)
async def create_effect(cloud: Cloud, server: Server, action: Action) -> None:
    """Copy the disk; a backup takes the place of the oldest one."""
    image = cloud.store.get(Snapshot, action.project, action.resources[1].id)
    async with cloud.exclusive("server", server.id):
        image.size = await cloud.backend.create_image(image.id, server.id)
    image.status = "available"
    cloud.store.put(image)
    for old in backups_of(cloud, server.id)[:-BACKUP_SLOTS]:
        await remove(cloud, old)


@undo("create_image", Server)
async def give_up(cloud: Cloud, _server: Server, action: Action) -> None:
    """An image that could not be made is not kept."""
    image = cloud.store.find(Snapshot, action.resources[1].id)
    if image is not None and image.status == "creating":
        cloud.store.remove(image)


@SERVERS.action("enable_backup")
async def enable_backup(call: Call, server: Server, _fields: Fields) -> Reply:
    """Allow backups; they are made by ``create_image`` alone, never by the clock."""
    server.backup_window = BACKUP_WINDOW
    return await call.changed("enable_backup", server)


@SERVERS.action("disable_backup")
async def disable_backup(call: Call, server: Server, _fields: Fields) -> Reply:
    """Forbid backups and delete those that there are."""
    server.backup_window = None
    return await call.changed("disable_backup", server, effect="disable_backup")


@effect("disable_backup", Server)
async def disable_effect(cloud: Cloud, server: Server, _action: Action) -> None:
    """The backups go."""
    for image in backups_of(cloud, server.id):
        await remove(cloud, image)


@reaction("server_deleted")
async def forget_server(cloud: Cloud, server: Server) -> None:
    """A deleted server's backups go with it; one that can't is nobody's."""
    for image in backups_of(cloud, server.id):
        try:
            await remove(cloud, image)
        except BackendError as error:
            log.warning("backup %d of server %s stays: %s", image.id, server.name, error)
            image.bound_to = None
            cloud.store.put(image)
