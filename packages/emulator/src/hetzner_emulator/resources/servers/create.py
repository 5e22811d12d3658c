"""Creating servers: the request is decoded, checked against the state of the cloud, then carried out."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect, undo
from hetzner_emulator.actions.events import announce
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.api.offer import ServerType
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput
from hetzner_emulator.models.firewalls import Firewall
from hetzner_emulator.models.images import check_image, find_image
from hetzner_emulator.models.networks import Network, network_spec
from hetzner_emulator.models.placement_groups import PlacementGroup, check_room
from hetzner_emulator.models.primary_ips import PrimaryIp, new_primary_ip, present_ip
from hetzner_emulator.models.server_types import SERVER_TYPES, check_available, is_available
from hetzner_emulator.models.servers import Server, interface, server_spec
from hetzner_emulator.models.volumes import Volume
from hetzner_emulator.resources.firewalls.resource import add, firewalls_for
from hetzner_emulator.resources.locations import LOCATION_CATALOG
from hetzner_emulator.resources.networks.attaching import check_compatible, new_attachment, open_network
from hetzner_emulator.resources.servers.power import check_interface
from hetzner_emulator.resources.servers.request import CreateServer, decode
from hetzner_emulator.resources.servers.resource import SERVERS
from hetzner_emulator.resources.ssh_keys import SshKey
from hetzner_emulator.resources.volumes.resource import read_volumes, start_attaching
from hetzner_emulator.wire.reply import Reply


@dataclass(frozen=True)
class _Parts:
    """What a new server is made of: the objects that the request names."""

    server_type: ServerType
    image: int
    location: str
    public_keys: list[str]
    group: PlacementGroup | None
    primary_ips: Mapping[str, PrimaryIp | None]  # by family; None for a new one
    networks: Sequence[Network]
    firewalls: Sequence[Firewall]
    volumes: Sequence[Volume]


@operation("POST", "/servers")
async def create(call: Call) -> Reply:
    """Make a server: its record at once, its machine by actions."""
    request = decode(call.fields())
    parts = _check(call, request)
    server = _keep(call, request, parts)
    action, *following = await call.wires(*_start(call, server, parts, request))
    password = None if server.public_keys else new_password(call.cloud)
    shown = SERVERS.show(call, server)
    return created("server", shown, action=action, next_actions=following, root_password=password)


def new_password(cloud: Cloud) -> str:
    """A root password; the sandbox's machines let nobody in by it."""
    return "".join(cloud.randomness.choices(string.ascii_letters + string.digits, k=20))


def _check(call: Call, request: CreateServer) -> _Parts:
    """Find what the request names, and refuse what the cloud can't create now; changes nothing."""
    cloud, project = call.cloud, call.project
    SERVERS.check_new(call, request.name)
    server_type = SERVER_TYPES.find(request.server_type)
    image = find_image(cloud, project, request.image, server_type.architecture, server_type.disk)
    location = _location(cloud, request.location, server_type)
    check_available(cloud, server_type, location)
    group = None
    if request.placement_group is not None:
        group = cloud.store.get(PlacementGroup, project, request.placement_group)
        check_room(group)
    public_keys = _public_keys(call, request.ssh_keys)
    volumes = read_volumes(call, request.volumes, location)
    primary_ips = {
        family: present_ip(cloud, project, identity, family, location) if identity else None
        for family, identity in request.primary_ips.items()
    }
    networks = [open_network(call, identity) for identity in request.networks]
    check_compatible(networks)
    firewalls = firewalls_for(cloud, project, request.firewalls)
    return _Parts(
        server_type, image.id, location, public_keys, group, primary_ips, networks, firewalls, volumes
    )


def _location(cloud: Cloud, wanted: str, server_type: ServerType) -> str:
    if wanted:
        return LOCATION_CATALOG.find(wanted).name
    candidates = [name for name in LOCATIONS if is_available(cloud, server_type, name)]
    return candidates[0] if candidates else server_type.locations[0]


def _public_keys(call: Call, wanted: Sequence[str]) -> list[str]:
    known = call.cloud.store.of(SshKey, call.project)
    result = []
    for text in wanted:
        key = next((k for k in known if text in {str(k.id), k.name, k.fingerprint}), None)
        if key is None:
            raise InvalidInput({"ssh_keys": [f"SSH key '{text}' not found"]})
        result.append(key.public_key)
    return result


def _keep(call: Call, request: CreateServer, parts: _Parts) -> Server:
    """Keep the record of the server, and those of what belongs to it.

    Raises:
        ApiError: No address is free, or nothing could reach the server; then nothing is kept.
    """
    cloud, zone = call.cloud, LOCATIONS[parts.location].network_zone
    addresses = {
        family: ip or new_primary_ip(cloud, call.project, family, parts.location, auto_delete=True)
        for family, ip in parts.primary_ips.items()
    }
    server = SERVERS.new(
        call,
        request.name,
        request.labels,
        status="initializing",
        server_type=parts.server_type.name,
        image=parts.image,
        location=parts.location,
        public_keys=parts.public_keys,
        user_data=request.user_data,
        placement_group=request.placement_group,
        disk=parts.server_type.disk,
        attachments=[new_attachment(call, network, zone) for network in parts.networks],
        **{family: ip.id for family, ip in addresses.items()},
    )
    if request.start:
        check_interface(server)
    for firewall in parts.firewalls:
        add(cloud, firewall, [server.id])
    if parts.group is not None:
        parts.group.servers.append(server.id)
        cloud.store.put(parts.group)
    for ip in addresses.values():
        ip.assignee = server.id
        cloud.store.put(ip)
    cloud.store.put(server)
    return server


def _start(call: Call, server: Server, parts: _Parts, request: CreateServer) -> list[Action]:
    create = call.start("create_server", server, effect="create_server", start=request.start)
    attach = "attach_to_network"
    following = [
        call.start(attach, server, network, effect=attach, after=create, network=network.id)
        for network in parts.networks
    ]
    following += [
        start_attaching(call, volume, server, create, automount=request.automount) for volume in parts.volumes
    ]
    if request.start:
        last = following[-1] if following else create
        following.append(call.start("start_server", server, effect="start_server", after=last))
    return [create, *following]


@effect("create_server", Server)
async def create_effect(cloud: Cloud, server: Server, action: Action) -> None:
    """Make the machine; it is not started here."""
    check_image(cloud, server.image)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.create_machine(server_spec(cloud, server))
    await announce("server_made", cloud, server)
    if not action.arguments["start"]:
        server.status = "off"
    cloud.store.put(server)


@effect("attach_to_network", Server)
async def attach_effect(cloud: Cloud, server: Server, action: Action) -> None:
    """Plug the machine into a network; the place is given up if that fails."""
    attachment = server.attachment(action.arguments["network"])
    if attachment is None:
        raise ApiError("not_found", "the network was deleted meanwhile")
    network = cloud.store.get(Network, action.project, attachment.network)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.attach(server.id, interface(attachment), network_spec(network))
    attachment.status = "ok"
    cloud.store.put(server)
    await announce("server_changed", cloud, server)


@undo("create_server", Server)
async def give_up(cloud: Cloud, server: Server, _action: Action) -> None:
    """A server whose machine could not be made stays as a record that is off, to be deleted."""
    server.status = "off"
    cloud.store.put(server)


@undo("attach_to_network", Server)
async def leave(cloud: Cloud, server: Server, action: Action) -> None:
    """The place in the network becomes free again."""
    gone = action.arguments["network"]
    server.attachments = [a for a in server.attachments if a.network != gone or a.status != "attaching"]
    cloud.store.put(server)
