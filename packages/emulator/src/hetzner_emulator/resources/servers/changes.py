"""All other actions of servers."""

from __future__ import annotations

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.resource import created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, Protected
from hetzner_emulator.models.images import check_image, find_image
from hetzner_emulator.models.isos import ISOS
from hetzner_emulator.models.networks import Network, network_spec
from hetzner_emulator.models.placement_groups import PlacementGroup, check_room
from hetzner_emulator.models.primary_ips import set_name
from hetzner_emulator.models.server_types import SERVER_TYPES, check_available
from hetzner_emulator.models.servers import Server, address, interface, server_spec
from hetzner_emulator.resources.primary_ips.resource import read_dns_ptr
from hetzner_emulator.resources.servers.create import new_password
from hetzner_emulator.resources.servers.networks import open_network_of
from hetzner_emulator.resources.servers.power import has_interface, power_off, power_on, set_status
from hetzner_emulator.resources.servers.request import read_user_data
from hetzner_emulator.resources.servers.resource import SERVERS
from hetzner_emulator.resources.ssh_keys import SshKey
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


def _stopped(server: Server) -> None:
    if server.status != "off":
        raise ApiError("server_not_stopped", "the action requires a stopped server")


@SERVERS.action("change_protection")
async def change_protection(call: Call, server: Server, fields: Fields) -> Reply:
    """Protect against deletion and rebuild together, as Hetzner demands."""
    delete = fields.flag("delete", server.delete_protected)
    rebuild = fields.flag("rebuild", server.rebuild_protected)
    if delete != rebuild:
        fields.wrong("rebuild", "must have the same value as delete")
    fields.check()
    server.delete_protected, server.rebuild_protected = delete, rebuild
    return await call.changed("change_protection", server)


@SERVERS.action("change_dns_ptr")
async def change_dns_ptr(call: Call, server: Server, fields: Fields) -> Reply:
    """Set or reset the reverse name of one of its addresses."""
    addresses = [ip for ip in (address(call.cloud, server.ipv4), address(call.cloud, server.ipv6)) if ip]
    text, name = read_dns_ptr(fields, {ip.ip for ip in addresses})
    fields.check()
    ip = next(ip for ip in addresses if (ip.type == "ipv6") is (":" in text))
    set_name(ip, text, name)
    call.cloud.store.put(ip)
    # Terraform sets the names of both addresses at once, and does not repeat what is refused as locked.
    return await call.changed("change_dns_ptr", server, locks=())


@SERVERS.action("add_to_placement_group")
async def add_to_placement_group(call: Call, server: Server, fields: Fields) -> Reply:
    """Join a placement group, and start: Terraform's provider relies on that after this call."""
    identity = fields.number("placement_group", required=True)
    fields.check()
    group = call.cloud.store.get(PlacementGroup, call.project, identity)
    if server.placement_group is not None:
        raise ApiError("already_in_placement_group", "the server is already part of a placement group")
    _stopped(server)
    check_room(group)
    group.servers.append(server.id)
    call.cloud.store.put(group)
    server.placement_group = group.id
    effect = "start_server" if has_interface(server) else ""
    return await call.changed("add_to_placement_group", server, effect=effect)


@SERVERS.action("remove_from_placement_group")
async def remove_from_placement_group(call: Call, server: Server, _fields: Fields) -> Reply:
    """Leave its placement group."""
    group = call.cloud.store.find(PlacementGroup, server.placement_group or 0)
    if group is None:
        raise ApiError("not_in_placement_group", "the server is not part of a placement group")
    group.servers.remove(server.id)
    call.cloud.store.put(group)
    server.placement_group = None
    return await call.changed("remove_from_placement_group", server)


@SERVERS.action("attach_iso")
async def attach_iso(call: Call, server: Server, fields: Fields) -> Reply:
    """Put an ISO image into the drive, as a record."""
    name = fields.reference("iso", required=True)
    fields.check()
    server.iso = ISOS.find(name).id
    return await call.changed("attach_iso", server)


@SERVERS.action("detach_iso")
async def detach_iso(call: Call, server: Server, _fields: Fields) -> Reply:
    """Empty the drive."""
    if server.iso is None:
        own = [server.reference]
        return await call.answer(call.cloud.actions.start("detach_iso", call.project, own, seconds=0))
    server.iso = None
    return await call.changed("detach_iso", server)


@SERVERS.action("enable_rescue")
async def enable_rescue(call: Call, server: Server, fields: Fields) -> Reply:
    """Have the next boot be one into the rescue system, as a record."""
    fields.choice("type", {"linux64"}, "linux64")
    keys = fields.numbers("ssh_keys")
    fields.check()
    for identity in keys:
        call.cloud.store.get(SshKey, call.project, identity)
    server.rescue_enabled = True
    call.cloud.store.put(server)
    return await _with_password(call, call.start("enable_rescue", server))


@SERVERS.action("disable_rescue")
async def disable_rescue(call: Call, server: Server, _fields: Fields) -> Reply:
    """Have the next boot be one from the server's own disk."""
    server.rescue_enabled = False
    return await call.changed("disable_rescue", server)


@SERVERS.action("request_console")
async def request_console(call: Call, server: Server, _fields: Fields) -> Reply:
    """Answer an address and a password; nothing listens there, since a machine has no screen."""
    (wire,) = await call.wires(call.start("request_console", server))
    url = f"wss://console.invalid/?server_id={server.id}&token={new_password(call.cloud)}"
    return created("wss_url", url, password=new_password(call.cloud), action=wire)


async def _with_password(call: Call, action: Action) -> Reply:
    (wire,) = await call.wires(action)
    return created("root_password", new_password(call.cloud), action=wire)


@SERVERS.action("reset_password")
async def reset_password(call: Call, server: Server, _fields: Fields) -> Reply:
    """Answer a new password; machines of the sandbox let nobody in by it."""
    if server.status != "running":
        raise ApiError("invalid_input", "the server must be running")
    return await _with_password(call, call.start("reset_password", server))


@SERVERS.action("change_type")
async def change_type(call: Call, server: Server, fields: Fields) -> Reply:
    """Give a stopped server another size, and start it again."""
    name, upgrade = fields.reference("server_type", required=True), fields.flag("upgrade_disk", required=True)
    fields.check()
    wanted, present = SERVER_TYPES.find(name), SERVER_TYPES.known(server.server_type)
    _stopped(server)
    if wanted.deprecation or wanted.architecture != present.architecture or wanted.disk < server.disk:
        text = "the server type does not fit for the given server or is deprecated"
        raise ApiError("invalid_server_type", text)
    check_available(call.cloud, wanted, server.location)
    command, disk = "change_server_type", wanted.disk if upgrade else server.disk
    return await call.act(command, server, effect=command, server_type=wanted.name, disk=disk)


@effect("change_server_type", Server)
async def change_type_effect(cloud: Cloud, server: Server, action: Action) -> None:
    """Give the machine its new size and start it, as Hetzner's document says, if it has an interface."""
    server.server_type, server.disk = action.arguments["server_type"], action.arguments["disk"]
    cloud.store.put(server)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.create_machine(server_spec(cloud, server))
    if has_interface(server):
        await power_on(cloud, server)


@SERVERS.action("rebuild")
async def rebuild(call: Call, server: Server, fields: Fields) -> Reply:
    """Start again from an image with an empty disk."""
    if server.rebuild_protected:
        raise Protected("server", "rebuild")
    name = fields.reference("image", required=True)
    user_data = read_user_data(fields, server.user_data)
    fields.check()
    architecture = SERVER_TYPES.known(server.server_type).architecture
    image = find_image(call.cloud, call.project, name, architecture, server.disk)
    for attachment in server.attachments:
        open_network_of(call, attachment.network)
    arguments = {"image": image.id, "user_data": user_data, "on": server.status == "running"}
    action = call.start("rebuild_server", server, effect="rebuild_server", **arguments)
    return await _with_password(call, action)


@effect("rebuild_server", Server)
async def rebuild_effect(cloud: Cloud, server: Server, action: Action) -> None:
    """Replace the machine by a fresh one."""
    check_image(cloud, action.arguments["image"])
    await power_off(cloud, server)
    set_status(cloud, server, "rebuilding")
    server.image, server.user_data = action.arguments["image"], action.arguments["user_data"]
    async with cloud.exclusive("server", server.id):
        await cloud.backend.delete_machine(server.id)
        await cloud.backend.create_machine(server_spec(cloud, server))
        for attachment in server.attachments:
            network = cloud.store.get(Network, server.project, attachment.network)
            await cloud.backend.attach(server.id, interface(attachment), network_spec(network))
    set_status(cloud, server, "off")
    if action.arguments["on"]:
        await power_on(cloud, server)
