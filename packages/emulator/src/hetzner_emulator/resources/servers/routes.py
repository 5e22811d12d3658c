"""Operations on one server; ``create.py`` has ``POST /servers``."""

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.api.registry import Handler, add_operation
from hetzner_emulator.api.resource import created
from hetzner_emulator.errors import ApiError, Protected
from hetzner_emulator.models.catalogs import ISOS, SERVER_TYPES
from hetzner_emulator.models.images import Snapshot, image_by_id
from hetzner_emulator.models.networks import Network
from hetzner_emulator.models.placement_groups import PlacementGroup
from hetzner_emulator.models.primary_ips import read_dns_ptr, set_name
from hetzner_emulator.models.servers import Server, address
from hetzner_emulator.models.ssh_keys import SshKey
from hetzner_emulator.resources.images.routes import SNAPSHOTS
from hetzner_emulator.resources.networks.rules import (
    check_compatible,
    new_attachment,
    open_network,
    read_aliases,
)
from hetzner_emulator.resources.servers.create import (
    SERVERS,
    check_available,
    check_group_capacity,
    find_image,
    new_password,
    no_interface,
    read_user_data,
)
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply

BACKUP_WINDOW = "22-02"

# path of the action, its command in the API
_POWER = (
    ("poweron", "start_server"),
    ("poweroff", "stop_server"),
    ("shutdown", "shutdown_server"),
    ("reboot", "reboot_server"),
    ("reset", "reset_server"),
)


def _power(command: str) -> Handler:
    async def handler(call: Call) -> Reply:
        server = call.get_free(Server)
        if command == "start_server" and not server.has_interface:
            raise no_interface()
        return await call.answer(call.run(command, server))

    return handler


for _path, _command in _POWER:
    add_operation("POST", f"/servers/{{id}}/actions/{_path}", _power(_command))


def _check_stopped(server: Server) -> None:
    if server.status != "off":
        raise ApiError("server_not_stopped", "the action requires a stopped server")


@SERVERS.action("change_protection")
async def _change_protection(call: Call, server: Server, fields: Fields) -> Reply:
    """Set both protections; Hetzner requires the same value for both."""
    delete = fields.flag("delete", server.delete_protected)
    rebuild = fields.flag("rebuild", server.rebuild_protected)
    if delete != rebuild:
        fields.wrong("rebuild", "must have the same value as 'delete'")
    fields.check()
    server.delete_protected, server.rebuild_protected = delete, rebuild
    return await call.changed("change_protection", server)


@SERVERS.action("change_dns_ptr")
async def _change_dns_ptr(call: Call, server: Server, fields: Fields) -> Reply:
    addresses = [ip for ip in (address(call.cloud, server.ipv4), address(call.cloud, server.ipv6)) if ip]
    text, name = read_dns_ptr(fields, {ip.ip for ip in addresses})
    fields.check()
    ip = next(ip for ip in addresses if (ip.type == "ipv6") is (":" in text))
    set_name(ip, text, name)
    call.cloud.store.put(ip)
    # Terraform sets the names of both addresses at once, and doesn't retry after "locked".
    return await call.changed("change_dns_ptr", server, locks=())


@SERVERS.action("add_to_placement_group")
async def _add_to_placement_group(call: Call, server: Server, fields: Fields) -> Reply:
    """Join a placement group and start: Terraform's provider relies on the start."""
    identity = fields.number("placement_group", required=True)
    fields.check()
    group = call.cloud.store.get(PlacementGroup, call.project, identity)
    if server.placement_group is not None:
        raise ApiError("already_in_placement_group", "the server is already part of a placement group")
    _check_stopped(server)
    check_group_capacity(group)
    group.servers.append(server.id)
    call.cloud.store.put(group)
    server.placement_group = group.id
    effect = "start_server" if server.has_interface else ""
    return await call.changed("add_to_placement_group", server, effect=effect)


@SERVERS.action("remove_from_placement_group")
async def _remove_from_placement_group(call: Call, server: Server, _fields: Fields) -> Reply:
    group = call.cloud.store.find(PlacementGroup, server.placement_group or 0)
    if group is None:
        raise ApiError("not_in_placement_group", "the server is not part of a placement group")
    group.servers.remove(server.id)
    call.cloud.store.put(group)
    server.placement_group = None
    return await call.changed("remove_from_placement_group", server)


@SERVERS.action("attach_iso")
async def _attach_iso(call: Call, server: Server, fields: Fields) -> Reply:
    """Record an ISO image; machines have no drive."""
    name = fields.reference("iso", required=True)
    fields.check()
    server.iso = ISOS.find(name).id
    return await call.changed("attach_iso", server)


@SERVERS.action("detach_iso")
async def _detach_iso(call: Call, server: Server, _fields: Fields) -> Reply:
    if server.iso is None:
        return await call.answer(
            call.cloud.actions.start("detach_iso", call.project, [server.reference], seconds=0)
        )
    server.iso = None
    return await call.changed("detach_iso", server)


@SERVERS.action("enable_rescue")
async def _enable_rescue(call: Call, server: Server, fields: Fields) -> Reply:
    """Record that the next boot uses the rescue system."""
    fields.choice("type", {"linux64"}, "linux64")
    keys = fields.numbers("ssh_keys")
    fields.check()
    for identity in keys:
        call.cloud.store.get(SshKey, call.project, identity)
    server.rescue_enabled = True
    call.cloud.store.put(server)
    return await _with_password(call, call.start("enable_rescue", server))


@SERVERS.action("disable_rescue")
async def _disable_rescue(call: Call, server: Server, _fields: Fields) -> Reply:
    server.rescue_enabled = False
    return await call.changed("disable_rescue", server)


@SERVERS.action("request_console")
async def _request_console(call: Call, server: Server, _fields: Fields) -> Reply:
    """Return an address where nothing listens, because machines have no screen."""
    (wire,) = await call.wires(call.start("request_console", server))
    url = f"wss://console.invalid/?server_id={server.id}&token={new_password(call.cloud)}"
    return created("wss_url", url, password=new_password(call.cloud), action=wire)


async def _with_password(call: Call, action: Action) -> Reply:
    (wire,) = await call.wires(action)
    return created("root_password", new_password(call.cloud), action=wire)


@SERVERS.action("reset_password")
async def _reset_password(call: Call, server: Server, _fields: Fields) -> Reply:
    if server.status != "running":
        raise ApiError("invalid_input", "the server must be running")
    return await _with_password(call, call.start("reset_password", server))


@SERVERS.action("change_type")
async def _change_type(call: Call, server: Server, fields: Fields) -> Reply:
    """Resize a stopped server, and start it again."""
    name, upgrade = fields.reference("server_type", required=True), fields.flag("upgrade_disk", required=True)
    fields.check()
    wanted, present = SERVER_TYPES.find(name), SERVER_TYPES.known(server.server_type)
    _check_stopped(server)
    if wanted.deprecation or wanted.architecture != present.architecture or wanted.disk < server.disk:
        text = "the server type does not fit for the given server or is deprecated"
        raise ApiError("invalid_server_type", text)
    check_available(call.cloud, wanted, server.location)
    disk = wanted.disk if upgrade else server.disk
    return await call.answer(call.run("change_server_type", server, server_type=wanted.name, disk=disk))


@SERVERS.action("rebuild")
async def _rebuild(call: Call, server: Server, fields: Fields) -> Reply:
    """Recreate the disk from an image."""
    if server.rebuild_protected:
        raise Protected("server", "rebuild")
    name = fields.reference("image", required=True)
    user_data = read_user_data(fields, server.user_data)
    fields.check()
    architecture = SERVER_TYPES.known(server.server_type).architecture
    image = find_image(call.cloud, call.project, name, architecture, server.disk)
    for attachment in server.attachments:
        _unlocked_network(call, attachment.network)
    arguments = {"image": image.id, "user_data": user_data, "on": server.status == "running"}
    return await _with_password(call, call.run("rebuild_server", server, **arguments))


@SERVERS.action("attach_to_network")
async def _attach_to_network(call: Call, server: Server, fields: Fields) -> Reply:
    """Attach to a network; without ``ip`` and ``ip_range`` to its last subnet."""
    identity = fields.number("network", required=True)
    ip, ip_range = fields.address("ip"), fields.network("ip_range")
    fields.check()
    if server.attachment(identity) is not None:
        raise ApiError("server_already_attached", "server is already attached to network")
    network = open_network(call, identity)
    present = [call.cloud.store.find(Network, attachment.network) for attachment in server.attachments]
    check_compatible([*(other for other in present if other), network])
    zone = LOCATIONS[server.location].network_zone
    aliases = read_aliases(call.cloud, fields, network, None)
    attachment = new_attachment(call, network, zone, ip, ip_range)
    if attachment.ip in aliases:
        fields.wrong("alias_ips", f"'{attachment.ip}' is the server's own address")
        fields.check()
    attachment.alias_ips = aliases
    server.attachments.append(attachment)
    call.cloud.store.put(server)
    return await call.answer(call.run("attach_to_network", server, network, network=identity))


@SERVERS.action("detach_from_network")
async def _detach_from_network(call: Call, server: Server, fields: Fields) -> Reply:
    identity = fields.number("network", required=True)
    fields.check()
    attachment, network = server.attached(identity), call.cloud.store.get(Network, call.project, identity)
    attachment.status = "detaching"
    call.cloud.store.put(server)
    return await call.answer(call.run("detach_from_network", server, network, network=identity))


@SERVERS.action("change_alias_ips")
async def _change_alias_ips(call: Call, server: Server, fields: Fields) -> Reply:
    identity = fields.number("network", required=True)
    fields.items("alias_ips", required=True)
    fields.check()
    attachment = server.attached(identity)
    network = _unlocked_network(call, identity)
    aliases = read_aliases(call.cloud, fields, network, attachment)
    attachment.status, attachment.coming = "updating", aliases
    call.cloud.store.put(server)
    action = call.run("change_alias_ips", server, network, network=identity, alias_ips=aliases)
    return await call.answer(action)


def _unlocked_network(call: Call, identity: int) -> Network:
    """The network of a member, unless an action changes it."""
    network = call.cloud.store.get(Network, call.project, identity)
    call.cloud.actions.check_free("network", network.id)
    return network


@SERVERS.action("create_image")
async def _create_image(call: Call, server: Server, fields: Fields) -> Reply:
    """Copy the disk into a snapshot, or into a backup that is deleted with the server."""
    kind = fields.choice("type", {"snapshot", "backup"}, "snapshot")
    description, labels = fields.text("description"), fields.labels()
    fields.check()
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
    (wire,) = await call.wires(call.run("create_image", server, image, locks=(server, image)))
    return created("image", SNAPSHOTS.show(call, image), action=wire)


@SERVERS.action("enable_backup")
async def _enable_backup(call: Call, server: Server, _fields: Fields) -> Reply:
    """Allow backups; only ``create_image`` creates them, no schedule does."""
    server.backup_window = BACKUP_WINDOW
    return await call.changed("enable_backup", server)


@SERVERS.action("disable_backup")
async def _disable_backup(call: Call, server: Server, _fields: Fields) -> Reply:
    server.backup_window = None
    return await call.changed("disable_backup", server, effect="disable_backup")
