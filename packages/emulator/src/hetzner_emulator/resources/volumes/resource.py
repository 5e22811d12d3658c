"""Volumes: all operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect, undo
from hetzner_emulator.actions.events import reaction
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.backend import AttachedVolume, BackendError
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput, LimitExceeded, Protected
from hetzner_emulator.models.servers import Server
from hetzner_emulator.models.volumes import (
    FORMATS,
    LARGEST,
    SMALLEST,
    Volume,
    name_problem,
    volume_spec,
    volume_wire,
    wanted_volumes,
)
from hetzner_emulator.resources.locations import LOCATION_CATALOG
from hetzner_emulator.state.records import Record
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply

MOST_OF_A_SERVER = 16
"""https://docs.hetzner.com/cloud/volumes/overview: volumes that a server can have."""

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


@operation("POST", "/volumes")
async def create(call: Call) -> Reply:
    """Make a volume, at a server or in a location."""
    fields, cloud = call.fields(), call.cloud
    name, labels = VOLUMES.read_name(fields), fields.labels()
    size = fields.number("size", required=True, least=SMALLEST, most=LARGEST)
    kind = fields.choice("format", FORMATS) or None
    automount, identity = fields.flag("automount"), fields.number("server")
    location = fields.reference("location")
    if bool(identity) == bool(location):
        fields.wrong("location", "either location or server is required")
    if automount and not identity:
        fields.wrong("automount", "is only allowed with server")
    fields.check()
    server = cloud.store.get(Server, call.project, identity) if identity else None
    VOLUMES.check_new(call, name)
    if server is not None:
        _check_server(cloud, server)
    where = server.location if server else LOCATION_CATALOG.find(location).name
    volume = VOLUMES.new(call, name, labels, size=size, location=where, format=kind)
    cloud.store.put(volume)
    # What it concerns besides is locked by the action that follows, which comes after this one.
    action = call.start("create_volume", volume, effect="create_volume")
    following = [] if server is None else [start_attaching(call, volume, server, action, automount=automount)]
    first, *rest = await call.wires(action, *following)
    return created("volume", VOLUMES.show(call, volume), action=first, next_actions=rest)


@effect("create_volume", Volume)
async def create_effect(cloud: Cloud, volume: Volume, _action: Action) -> None:
    """Make the disk."""
    async with cloud.exclusive("volume", volume.id):
        await cloud.backend.put_volume(volume_spec(volume))
    volume.status = "available"
    cloud.store.put(volume)


@undo("create_volume", Volume)
async def give_up(cloud: Cloud, volume: Volume, _action: Action) -> None:
    """A volume whose disk could not be made is not kept."""
    cloud.store.remove(volume)


def _check_server(cloud: Cloud, server: Server) -> None:
    cloud.actions.check_free("server", server.id)
    check_count(wanted_volumes(cloud, server.id) + 1)


def check_count(number: int) -> None:
    """Refuse more volumes than a server can have.

    Raises:
        LimitExceeded: These are more.
    """
    if number > MOST_OF_A_SERVER:
        raise LimitExceeded(f"a server can have {MOST_OF_A_SERVER} volumes at most", "server_volumes_limit")


def check_attachable(volume: Volume, location: str) -> None:
    """Refuse to attach a volume that a server has, or that is elsewhere.

    Raises:
        ApiError: ``volume_already_attached``.
        InvalidInput: It is in another location.
    """
    if volume.server is not None or volume.wanted_by is not None:
        raise ApiError("volume_already_attached", "volume is already attached to a server, detach first")
    if volume.location != location:
        raise InvalidInput({"server": ["server and volume are in different locations"]})


def read_volumes(call: Call, identities: Iterable[int], location: str) -> Sequence[Volume]:
    """The volumes that a new server comes with.

    Raises:
        ApiError: One of them can't be attached there.
        LimitExceeded: There are too many.
    """
    volumes = [call.cloud.store.get(Volume, call.project, identity) for identity in identities]
    check_count(len(volumes))
    for volume in volumes:
        call.cloud.actions.check_free("volume", volume.id)
        check_attachable(volume, location)
    return volumes


def start_attaching(
    call: Call, volume: Volume, server: Server, after: Action | None = None, *, automount: bool
) -> Action:
    """Start the action that attaches a volume; the volume is promised to the server at once."""
    volume.wanted_by = server.id
    call.cloud.store.put(volume)
    command = "attach_volume"
    return call.start(
        command, volume, server, effect=command, after=after, locks=(volume, server), automount=automount
    )


@VOLUMES.action("attach")
async def attach(call: Call, volume: Volume, fields: Fields) -> Reply:
    """Attach to a server in the same location."""
    identity, automount = fields.number("server", required=True), fields.flag("automount")
    fields.check()
    server = call.cloud.store.get(Server, call.project, identity)
    check_attachable(volume, server.location)
    _check_server(call.cloud, server)
    return await call.answer(start_attaching(call, volume, server, automount=automount))


@VOLUMES.action("detach")
async def detach(call: Call, volume: Volume, _fields: Fields) -> Reply:
    """Take it from its server."""
    if volume.server is None:
        # Hetzner's document names no code for this.
        raise ApiError("invalid_input", "volume is not attached to a server")
    server = call.cloud.store.get(Server, call.project, volume.server)
    call.cloud.actions.check_free("server", server.id)
    command = "detach_volume"
    return await call.act(command, volume, server, effect=command, locks=(volume, server))


@effect("attach_volume", Volume)
async def attach_effect(cloud: Cloud, volume: Volume, action: Action) -> None:
    """Give the machine the disk."""
    server = cloud.store.get(Server, action.project, action.resources[1].id)
    wanted = AttachedVolume(volume_spec(volume), action.arguments["automount"])
    async with cloud.exclusive("server", server.id), cloud.exclusive("volume", volume.id):
        await cloud.backend.attach_volume(server.id, wanted)
    volume.server, volume.wanted_by, volume.automount = server.id, None, wanted.automount
    cloud.store.put(volume)


@undo("attach_volume", Volume)
async def keep_free(cloud: Cloud, volume: Volume, _action: Action) -> None:
    """The promise is taken back."""
    volume.wanted_by = None
    cloud.store.put(volume)


@effect("detach_volume", Volume)
async def detach_effect(cloud: Cloud, volume: Volume, action: Action) -> None:
    """Take the disk from the machine."""
    server = action.resources[1].id
    async with cloud.exclusive("server", server), cloud.exclusive("volume", volume.id):
        await cloud.backend.detach_volume(server, volume.id)
    volume.server, volume.automount = None, False
    cloud.store.put(volume)


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
