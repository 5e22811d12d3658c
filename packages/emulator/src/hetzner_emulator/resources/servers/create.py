"""Creating servers."""

from __future__ import annotations

import string
from collections.abc import Sequence

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
from hetzner_emulator.models.images import check_image, find_image
from hetzner_emulator.models.networks import Network, network_spec
from hetzner_emulator.models.placement_groups import PlacementGroup, check_room
from hetzner_emulator.models.primary_ips import PrimaryIp, new_primary_ip, present_ip
from hetzner_emulator.models.server_types import SERVER_TYPES, check_available, is_available
from hetzner_emulator.models.servers import Server, interface, server_spec
from hetzner_emulator.models.volumes import Volume
from hetzner_emulator.resources.locations import LOCATION_CATALOG
from hetzner_emulator.resources.networks.attaching import check_compatible, new_attachment, open_network
from hetzner_emulator.resources.servers.power import check_interface
from hetzner_emulator.resources.servers.resource import SERVERS
from hetzner_emulator.resources.ssh_keys import SshKey
from hetzner_emulator.resources.volumes.resource import read_volumes, start_attaching
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply

_LARGEST_USER_DATA = 32 * 1024


@operation("POST", "/servers")
async def create(call: Call) -> Reply:
    """Make a server: its record at once, its machine by actions."""
    fields, cloud = call.fields(), call.cloud
    server = _read(call, fields)
    start = fields.flag("start_after_create", default=True)
    firewalls = [item.number("firewall", required=True) for item in fields.objects("firewalls")]
    fields.check_distinct("firewalls", firewalls)
    wanted_networks = fields.numbers("networks", distinct=True)
    wanted_volumes, automount = fields.numbers("volumes", distinct=True), fields.flag("automount")
    fields.check()
    volumes = read_volumes(call, wanted_volumes, server.location)
    addresses = _addresses(call, fields, server)
    networks = [open_network(call, identity) for identity in wanted_networks]
    check_compatible(networks)
    zone = LOCATIONS[server.location].network_zone
    server.attachments = [new_attachment(call, network, zone) for network in networks]
    if start:
        check_interface(server)
    await announce("server_wants_firewalls", cloud, (server, firewalls))
    _join_group(call, server)
    for ip in addresses:
        ip.assignee = server.id
        cloud.store.put(ip)
    cloud.store.put(server)
    action, *following = await call.wires(
        *_start(call, server, networks, volumes, start=start, automount=automount)
    )
    password = None if server.public_keys else new_password(cloud)
    shown = SERVERS.show(call, server)
    return created("server", shown, action=action, next_actions=following, root_password=password)


def new_password(cloud: Cloud) -> str:
    """A root password; the sandbox's machines let nobody in by it."""
    return "".join(cloud.randomness.choices(string.ascii_letters + string.digits, k=20))


def _read(call: Call, fields: Fields) -> Server:
    cloud = call.cloud
    name, labels = SERVERS.read_name(fields), fields.labels()
    user_data = read_user_data(fields)
    type_name = fields.reference("server_type", required=True)
    image_name = fields.reference("image", required=True)
    if "datacenter" in fields:
        fields.wrong("datacenter", "was removed from the API; use location")
    fields.check()
    SERVERS.check_new(call, name)
    server_type = SERVER_TYPES.find(type_name)
    architecture, disk = server_type.architecture, server_type.disk
    image = find_image(cloud, call.project, image_name, architecture, disk)
    location = _location(cloud, fields, server_type)
    check_available(cloud, server_type, location)
    group = fields.number("placement_group") or None
    if group is not None:
        check_room(cloud.store.get(PlacementGroup, call.project, group))
    return SERVERS.new(
        call,
        name,
        labels,
        status="initializing",
        server_type=server_type.name,
        image=image.id,
        location=location,
        public_keys=_keys(call, fields),
        user_data=user_data,
        placement_group=group,
        disk=disk,
    )


def read_user_data(fields: Fields, default: str = "") -> str:
    """The field ``user_data``, whose bytes are counted."""
    user_data = fields.text("user_data", default, longest=_LARGEST_USER_DATA)
    if len(user_data.encode()) > _LARGEST_USER_DATA >= len(user_data):
        fields.wrong("user_data", "is too long")
    return user_data


def _location(cloud: Cloud, fields: Fields, server_type: ServerType) -> str:
    if wanted := fields.reference("location"):
        return LOCATION_CATALOG.find(wanted).name
    candidates = [name for name in LOCATIONS if is_available(cloud, server_type, name)]
    return candidates[0] if candidates else server_type.locations[0]


def _keys(call: Call, fields: Fields) -> list[str]:
    known = call.cloud.store.of(SshKey, call.project)
    result = []
    for wanted in fields.items("ssh_keys"):
        key = next((k for k in known if str(wanted) in {str(k.id), k.name, k.fingerprint}), None)
        if key is None:
            raise InvalidInput({"ssh_keys": [f"SSH key '{wanted}' not found"]})
        result.append(key.public_key)
    return result


def _addresses(call: Call, fields: Fields, server: Server) -> Sequence[PrimaryIp]:
    """The server's primary IPs, present or new; sets their ids on the server."""
    public = fields.object("public_net")
    chosen: dict[str, PrimaryIp | None] = {}
    for kind in ("ipv4", "ipv6"):
        enabled, wanted = public.flag(f"enable_{kind}", default=True), public.number(kind)
        public.check()
        if not enabled:
            chosen[kind] = None
        elif wanted:
            chosen[kind] = present_ip(call.cloud, call.project, wanted, kind, server.location)
        else:
            chosen[kind] = new_primary_ip(call.cloud, call.project, kind, server.location, auto_delete=True)
    ipv4, ipv6 = chosen["ipv4"], chosen["ipv6"]
    server.ipv4, server.ipv6 = ipv4.id if ipv4 else None, ipv6.id if ipv6 else None
    return [ip for ip in (ipv4, ipv6) if ip is not None]


def _join_group(call: Call, server: Server) -> None:
    if server.placement_group is None:
        return
    group = call.cloud.store.get(PlacementGroup, call.project, server.placement_group)
    group.servers.append(server.id)
    call.cloud.store.put(group)


def _start(
    call: Call,
    server: Server,
    networks: Sequence[Network],
    volumes: Sequence[Volume],
    *,
    start: bool,
    automount: bool,
) -> list[Action]:
    create = call.start("create_server", server, effect="create_server", start=start)
    attach = "attach_to_network"
    following = [
        call.start(attach, server, network, effect=attach, after=create, network=network.id)
        for network in networks
    ]
    following += [start_attaching(call, volume, server, create, automount=automount) for volume in volumes]
    if start:
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
