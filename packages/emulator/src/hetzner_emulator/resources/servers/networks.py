"""Actions that attach servers to networks and detach them."""

from __future__ import annotations

import msgspec

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect, undo
from hetzner_emulator.actions.events import announce
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.networks import Attachment, Network, network_spec
from hetzner_emulator.models.servers import Server, interface
from hetzner_emulator.resources.networks.attaching import (
    check_compatible,
    new_attachment,
    open_network,
    read_aliases,
)
from hetzner_emulator.resources.servers.resource import SERVERS
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


@SERVERS.action("attach_to_network")
async def attach(call: Call, server: Server, fields: Fields) -> Reply:
    """Plug into a network; without ``ip`` and ``ip_range`` into its last subnet."""
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
    command = "attach_to_network"
    return await call.act(command, server, network, effect=command, network=identity)


def _attachment(server: Server, network: int) -> Attachment:
    attachment = server.attachment(network)
    if attachment is None:
        raise ApiError("not_found", f"server {server.id} is not attached to network {network}")
    return attachment


@SERVERS.action("detach_from_network")
async def detach(call: Call, server: Server, fields: Fields) -> Reply:
    """Unplug from a network."""
    identity = fields.number("network", required=True)
    fields.check()
    attachment, network = _attachment(server, identity), call.cloud.store.get(Network, call.project, identity)
    attachment.status = "detaching"
    call.cloud.store.put(server)
    command = "detach_from_network"
    return await call.act(command, server, network, effect=command, network=identity)


@effect("detach_from_network", Server)
async def detach_effect(cloud: Cloud, server: Server, action: Action) -> None:
    """Unplug the machine."""
    network = action.arguments["network"]
    async with cloud.exclusive("server", server.id):
        await cloud.backend.detach(server.id, network)
    server.attachments = [a for a in server.attachments if a.network != network]
    cloud.store.put(server)
    await announce("server_changed", cloud, server)


@SERVERS.action("change_alias_ips")
async def change_alias_ips(call: Call, server: Server, fields: Fields) -> Reply:
    """Replace the alias addresses in a network."""
    identity = fields.number("network", required=True)
    fields.items("alias_ips", required=True)
    fields.check()
    attachment = _attachment(server, identity)
    network = open_network_of(call, identity)
    aliases = read_aliases(call.cloud, fields, network, attachment)
    attachment.status, attachment.coming = "updating", aliases
    call.cloud.store.put(server)
    command = "change_alias_ips"
    return await call.act(command, server, network, effect=command, network=identity, alias_ips=aliases)


def open_network_of(call: Call, identity: int) -> Network:
    """The network of a present member; it must not be changed meanwhile.

    Raises:
        NotFound: There is none.
        Conflict: It is being changed.
    """
    network = call.cloud.store.get(Network, call.project, identity)
    call.cloud.actions.check_free("network", network.id)
    return network


@effect("change_alias_ips", Server)
async def change_alias_effect(cloud: Cloud, server: Server, action: Action) -> None:
    """Give the machine its new aliases."""
    attachment = _attachment(server, action.arguments["network"])
    network = cloud.store.get(Network, action.project, attachment.network)
    wanted = msgspec.structs.replace(attachment, alias_ips=list(action.arguments["alias_ips"]))
    async with cloud.exclusive("server", server.id):
        await cloud.backend.attach(server.id, interface(wanted), network_spec(network))
    attachment.alias_ips, attachment.status, attachment.coming = wanted.alias_ips, "ok", []
    cloud.store.put(server)


@undo("detach_from_network", Server)
@undo("change_alias_ips", Server)
async def stay(cloud: Cloud, server: Server, action: Action) -> None:
    """The attachment is what it was."""
    attachment = server.attachment(action.arguments["network"])
    if attachment is not None:
        attachment.status, attachment.coming = "ok", []
        cloud.store.put(server)
