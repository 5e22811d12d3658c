"""Operations on volumes."""

from collections.abc import Iterable, Sequence

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput, LimitExceeded
from hetzner_emulator.models.catalogs import LOCATION_CATALOG
from hetzner_emulator.models.servers import Server
from hetzner_emulator.models.volumes import (
    FORMATS,
    LARGEST,
    SMALLEST,
    Volume,
    name_problem,
    volume_wire,
    wanted_volumes,
)
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply

MAX_PER_SERVER = 16
"""https://docs.hetzner.com/cloud/volumes/overview"""


def _check_detached(_cloud: Cloud, volume: Volume) -> None:
    if volume.server is not None:
        # Hetzner's document names no code for this.
        raise ApiError("resource_in_use", f"volume with ID '{volume.id}' is still attached to a server")


async def _delete(cloud: Cloud, volume: Volume) -> None:
    await cloud.backend.delete_volume(volume.id)


VOLUMES = Resource(
    "volumes",
    Volume,
    volume_wire,
    filters={"status": lambda _cloud, volume: volume.status},
    longest_name=64,
    name_problem=name_problem,
    protection="protected",
    changes_protection="optional",
    check_delete=_check_detached,
    delete_from_backend=_delete,
)
VOLUMES.register()


@operation("POST", "/volumes")
async def _create(call: Call) -> Reply:
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
    # The action that follows locks the server.
    action = call.run("create_volume", volume)
    following = [] if server is None else [start_attaching(call, volume, server, action, automount=automount)]
    first, *rest = await call.wires(action, *following)
    return created("volume", VOLUMES.show(call, volume), action=first, next_actions=rest)


def _check_server(cloud: Cloud, server: Server) -> None:
    cloud.actions.check_free("server", server.id)
    _check_count(wanted_volumes(cloud, server.id) + 1)


def _check_count(number: int) -> None:
    if number > MAX_PER_SERVER:
        raise LimitExceeded(f"a server can have {MAX_PER_SERVER} volumes at most", "server_volumes_limit")


def _check_attachable(volume: Volume, location: str) -> None:
    if volume.server is not None or volume.wanted_by is not None:
        raise ApiError("volume_already_attached", "volume is already attached to a server, detach first")
    if volume.location != location:
        raise InvalidInput({"server": ["server and volume are in different locations"]})


def read_volumes(call: Call, identities: Iterable[int], location: str) -> Sequence[Volume]:
    """The volumes of a new server, unless it can't get one of them."""
    volumes = [call.cloud.store.get(Volume, call.project, identity) for identity in identities]
    _check_count(len(volumes))
    for volume in volumes:
        call.cloud.actions.check_free("volume", volume.id)
        _check_attachable(volume, location)
    return volumes


def start_attaching(
    call: Call, volume: Volume, server: Server, after: Action | None = None, *, automount: bool
) -> Action:
    """Start the action that attaches a volume, and reserve the volume for the server."""
    volume.wanted_by = server.id
    call.cloud.store.put(volume)
    locks = (volume, server)
    return call.run("attach_volume", volume, server, after=after, locks=locks, automount=automount)


@VOLUMES.action("attach")
async def _attach(call: Call, volume: Volume, fields: Fields) -> Reply:
    identity, automount = fields.number("server", required=True), fields.flag("automount")
    fields.check()
    server = call.cloud.store.get(Server, call.project, identity)
    _check_attachable(volume, server.location)
    _check_server(call.cloud, server)
    return await call.answer(start_attaching(call, volume, server, automount=automount))


@VOLUMES.action("detach")
async def _detach(call: Call, volume: Volume, _fields: Fields) -> Reply:
    if volume.server is None:
        # Hetzner's document names no code for this.
        raise ApiError("invalid_input", "volume is not attached to a server")
    server = call.cloud.store.get(Server, call.project, volume.server)
    call.cloud.actions.check_free("server", server.id)
    return await call.answer(call.run("detach_volume", volume, server, locks=(volume, server)))


@VOLUMES.action("resize")
async def _resize(call: Call, volume: Volume, fields: Fields) -> Reply:
    """Grow the volume; the server grows the file system."""
    size = fields.number("size", required=True, least=volume.size + 1, most=LARGEST)
    fields.check()
    return await call.answer(call.run("resize_volume", volume, size=size))
