"""``POST /servers``: decode the request, check it against the state of the cloud, create records and actions.

The rules about images, server types, and interfaces are here because creation applies all of them.
"""

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.api.offer import ServerType
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput
from hetzner_emulator.models.catalogs import LOCATION_CATALOG, SERVER_TYPES, is_available
from hetzner_emulator.models.firewalls import MAX_PER_SERVER, Firewall, too_many_firewalls
from hetzner_emulator.models.images import SYSTEM_IMAGES, Image, Snapshot
from hetzner_emulator.models.networks import Attachment, Network
from hetzner_emulator.models.placement_groups import PlacementGroup
from hetzner_emulator.models.primary_ips import PrimaryIp, primary_ips_for
from hetzner_emulator.models.servers import Server, server_wire
from hetzner_emulator.models.ssh_keys import SshKey
from hetzner_emulator.models.volumes import Volume
from hetzner_emulator.resources.networks.rules import new_attachments
from hetzner_emulator.resources.volumes.routes import read_volumes, start_attaching
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply

MAX_USER_DATA = 32 * 1024
MAX_GROUP_SERVERS = 10


_LABEL = r"[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
_HOSTNAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")

SERVERS = Resource(
    "servers",
    Server,
    server_wire,
    filters={"status": lambda _cloud, server: server.status},
    longest_name=253,  # Hetzner's document gives no number, but "a valid hostname as per RFC 1123"
    name_problem=lambda name: "" if _HOSTNAME.fullmatch(name) else "must be a valid hostname as per RFC 1123",
    protection="delete_protected",
    delete_status=200,
    of_state=True,
    series={
        "cpu": ("cpu",),
        "disk": ("disk.0.iops.read", "disk.0.iops.write", "disk.0.bandwidth.read", "disk.0.bandwidth.write"),
        "network": (
            "network.0.pps.in",
            "network.0.pps.out",
            "network.0.bandwidth.in",
            "network.0.bandwidth.out",
        ),
    },
)
SERVERS.register()


@dataclass(frozen=True)
class CreateServer:
    """The decoded body; nothing is checked against the state of the cloud yet."""

    name: str  # a valid hostname
    labels: dict[str, str]
    server_type: str  # name or ID
    image: str  # name or ID
    location: str  # name or ID; empty for any
    ssh_keys: Sequence[str]  # names, IDs, or fingerprints
    user_data: str  # for cloud-init
    start: bool  # whether the server starts after its creation
    # by family that the server has an address of: the ID of a primary IP, 0 for a new one
    primary_ips: Mapping[str, int]
    networks: Sequence[int]  # IDs
    firewalls: Sequence[int]  # IDs
    volumes: Sequence[int]  # IDs
    automount: bool  # whether the server mounts them
    placement_group: int | None  # ID, or None


@dataclass(frozen=True)
class _Parts:
    """The objects that the request names, and new addresses."""

    server_type: ServerType
    image: int
    location: str
    public_keys: list[str]
    group: PlacementGroup | None
    primary_ips: Mapping[str, PrimaryIp]  # by family
    attachments: list[Attachment]
    firewalls: Sequence[Firewall]
    volumes: Sequence[Volume]


@operation("POST", "/servers")
async def create(call: Call) -> Reply:
    """Create the record in the request, and the machine by actions."""
    request = _decode(Fields(call.body))
    parts = _check(call, request)
    server = _create(call, request, parts)
    action, *following = await call.wires(*_start(call, server, parts, request))
    password = None if server.public_keys else new_password(call.cloud)
    shown = server_wire(call.cloud, server)
    return created("server", shown, action=action, next_actions=following, root_password=password)


def new_password(cloud: Cloud) -> str:
    """A root password, which no machine of the sandbox accepts."""
    return "".join(cloud.randomness.choices(string.ascii_letters + string.digits, k=20))


def _decode(fields: Fields) -> CreateServer:
    """Decode the body; the error names every invalid field."""
    if "datacenter" in fields:
        fields.wrong("datacenter", "was removed from the API. Use 'location'")
    public = fields.object("public_net")
    firewalls = [item.number("firewall", required=True) for item in fields.objects("firewalls")]
    fields.check_distinct("firewalls", firewalls)
    request = CreateServer(
        name=fields.name(SERVERS.longest_name, SERVERS.name_problem),
        labels=fields.labels(),
        server_type=fields.reference("server_type", required=True),
        image=fields.reference("image", required=True),
        location=fields.reference("location"),
        ssh_keys=[str(key) for key in fields.items("ssh_keys")],
        user_data=read_user_data(fields),
        start=fields.flag("start_after_create", default=True),
        primary_ips={
            family: public.number(family)
            for family in ("ipv4", "ipv6")
            if public.flag(f"enable_{family}", default=True)
        },
        networks=fields.numbers("networks", distinct=True),
        firewalls=firewalls,
        volumes=fields.numbers("volumes", distinct=True),
        automount=fields.flag("automount"),
        placement_group=fields.number("placement_group") or None,
    )
    fields.check()
    return request


def read_user_data(fields: Fields, default: str = "") -> str:
    """The field ``user_data``, whose limit counts bytes."""
    user_data = fields.text("user_data", default, longest=MAX_USER_DATA)
    if len(user_data.encode()) > MAX_USER_DATA >= len(user_data):
        fields.wrong("user_data", "is too long")
    return user_data


def _check(call: Call, request: CreateServer) -> _Parts:
    """Find the objects that the request names, and refuse a server that the cloud can't create now.

    The new addresses are in no record yet, so an error leaves the state as it was.
    """
    cloud, project = call.cloud, call.project
    SERVERS.check_new(call, request.name)
    server_type = SERVER_TYPES.find(request.server_type)
    location = _location(cloud, request.location, server_type)
    image = find_image(cloud, project, request.image, server_type.architecture, server_type.disk)
    check_available(cloud, server_type, location)
    group = None
    if request.placement_group is not None:
        group = cloud.store.get(PlacementGroup, project, request.placement_group)
        check_group_capacity(group)
    public_keys = _public_keys(call, request.ssh_keys)
    volumes = read_volumes(call, request.volumes, location)
    firewalls = [cloud.store.get(Firewall, project, identity) for identity in request.firewalls]
    if len(firewalls) > MAX_PER_SERVER:
        raise too_many_firewalls()
    attachments = new_attachments(call, request.networks, LOCATIONS[location].network_zone)
    if request.start and not request.primary_ips and not attachments:
        raise no_interface()
    primary_ips = primary_ips_for(cloud, project, request.primary_ips, location)
    return _Parts(
        server_type, image.id, location, public_keys, group, primary_ips, attachments, firewalls, volumes
    )


def find_image(cloud: Cloud, project: str, text: str, architecture: str, disk: int) -> Image | Snapshot:
    """An image by ID, or by name and architecture, that fits a disk of so many GB."""
    found: list[Image | Snapshot] = [i for i in SYSTEM_IMAGES if text in {i.name, str(i.id)}]
    if text.isascii() and text.isdecimal() and len(text) < 20:
        snapshot = cloud.store.find(Snapshot, int(text))
        found += [snapshot] if snapshot is not None and snapshot.project == project else []
    if not found:
        raise ApiError("invalid_input", "image not found")
    fitting = [image for image in found if image.architecture == architecture]
    if not fitting:
        raise InvalidInput({"image": [f"image '{text}' has incompatible architecture"]})
    image = fitting[0]
    if isinstance(image, Snapshot) and image.status != "available":
        raise InvalidInput({"image": [f"image '{text}' is not available"]})
    if image.disk_size > disk:
        raise InvalidInput({"image": [f"image '{text}' needs a disk of {image.disk_size} GB"]})
    return image


def _location(cloud: Cloud, wanted: str, server_type: ServerType) -> str:
    if wanted:
        return LOCATION_CATALOG.find(wanted).name
    candidates = [name for name in LOCATIONS if is_available(cloud, server_type, name)]
    return candidates[0] if candidates else server_type.locations[0]


def check_available(cloud: Cloud, server_type: ServerType, location: str) -> None:
    """Refuse a server type that is deprecated, not offered in the location, or sold out there."""
    if server_type.deprecation is not None:
        raise InvalidInput({"server_type": [f"server type {server_type.id} is deprecated"]})
    if location not in server_type.locations:
        raise InvalidInput({"server_type": ["unsupported location for server type"]})
    if not is_available(cloud, server_type, location):
        raise ApiError("resource_unavailable", "error during placement")


def check_group_capacity(group: PlacementGroup) -> None:
    """Refuse one more server in a full group (``service_error``)."""
    if len(group.servers) >= MAX_GROUP_SERVERS:
        text = f"placement group {group.id} already contains {MAX_GROUP_SERVERS} servers"
        raise ApiError("service_error", text)


def no_interface() -> ApiError:
    """The error of a server that can't start, because it has neither a public nor a private address."""
    return ApiError("invalid_input", "no public or private network interfaces found, cannot start server")


def _public_keys(call: Call, wanted: Sequence[str]) -> list[str]:
    known = call.cloud.store.of(SshKey, call.project)
    result = []
    for text in wanted:
        key = next((k for k in known if text in {str(k.id), k.name, k.fingerprint}), None)
        if key is None:
            raise InvalidInput({"ssh_keys": [f"SSH key '{text}' not found"]})
        result.append(key.public_key)
    return result


def _create(call: Call, request: CreateServer, parts: _Parts) -> Server:
    """Store the server, and what belongs to it."""
    store, addresses = call.cloud.store, {family: ip.id for family, ip in parts.primary_ips.items()}
    server = Server(
        id=store.new_id(Server),
        project=call.project,
        name=request.name,
        labels=request.labels,
        created=call.cloud.now(),
        status="initializing",
        server_type=parts.server_type.name,
        image=parts.image,
        location=parts.location,
        public_keys=parts.public_keys,
        user_data=request.user_data,
        placement_group=request.placement_group,
        disk=parts.server_type.disk,
        attachments=parts.attachments,
        ipv4=addresses.get("ipv4"),
        ipv6=addresses.get("ipv6"),
    )
    for firewall in parts.firewalls:
        firewall.servers = [*firewall.servers, server.id]
        store.put(firewall)
    if parts.group is not None:
        parts.group.servers.append(server.id)
        store.put(parts.group)
    for ip in parts.primary_ips.values():
        ip.assignee = server.id
        store.put(ip)
    store.put(server)
    return server


def _start(call: Call, server: Server, parts: _Parts, request: CreateServer) -> list[Action]:
    create = call.run("create_server", server, start=request.start)
    networks = [call.cloud.store.get(Network, call.project, each.network) for each in parts.attachments]
    following = [
        call.run("attach_to_network", server, network, after=create, network=network.id)
        for network in networks
    ]
    following += [
        start_attaching(call, volume, server, create, automount=request.automount) for volume in parts.volumes
    ]
    if request.start:
        following.append(call.run("start_server", server, after=following[-1] if following else create))
    return [create, *following]
