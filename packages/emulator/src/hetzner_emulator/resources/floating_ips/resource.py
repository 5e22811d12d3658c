"""Floating IPs: all operations."""

from __future__ import annotations

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect
from hetzner_emulator.actions.events import reaction
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput
from hetzner_emulator.models.floating_ips import FloatingIp, floating_ip_wire, floating_ips_of
from hetzner_emulator.models.primary_ips import default_name, set_name
from hetzner_emulator.models.servers import Server
from hetzner_emulator.resources.locations import LOCATION_CATALOG
from hetzner_emulator.resources.primary_ips.resource import read_dns_ptr
from hetzner_emulator.state.records import Record
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


def check_unassigned(_cloud: Cloud, ip: FloatingIp) -> None:
    """Refuse to give an address back that is led to a server.

    Raises:
        ApiError: ``must_be_unassigned``.
    """
    if ip.server is not None:
        raise ApiError("must_be_unassigned", "floating IP must be unassigned before it can be deleted")


FLOATING_IPS = Resource(
    "floating_ips",
    FloatingIp,
    floating_ip_wire,
    sorts=("id", "created"),
    texts=("description",),
    protection="protected",
    check_delete=check_unassigned,
)
FLOATING_IPS.register()


@operation("POST", "/floating_ips")
async def create(call: Call) -> Reply:
    """Take an address, and lead it to a server if one is named."""
    fields, cloud = call.fields(), call.cloud
    name = FLOATING_IPS.read_name(fields) if "name" in fields else ""
    labels, description = fields.labels(), fields.text("description")
    kind = fields.choice("type", {"ipv4", "ipv6"}, required=True)
    identity, location = fields.number("server"), fields.reference("home_location")
    if bool(identity) == bool(location):
        for field in ("server", "home_location"):
            fields.wrong(field, "either home_location or server is required")
    if location and not LOCATION_CATALOG.called(location):
        for field in ("server", "home_location"):
            fields.wrong(field, f"location '{location}' not found")
    fields.check()
    server = _server(call, identity) if identity else None
    FLOATING_IPS.check_new(call, name)
    ip = FLOATING_IPS.new(
        call,
        name,
        labels,
        type=kind,
        ip=cloud.addresses.new_ipv4() if kind == "ipv4" else cloud.addresses.new_ipv6(),
        home_location=server.location if server else LOCATION_CATALOG.find(location).name,
        description=description,
    )
    ip.name = name or f"floating-ip-{ip.id}"
    ip.dns_ptr = {ip.ip: default_name(ip.ip)} if kind == "ipv4" else {}
    cloud.store.put(ip)
    if server is None:
        return created("floating_ip", FLOATING_IPS.show(call, ip))
    (action,) = await call.wires(_start(call, "assign_floating_ip", ip, server))
    return created("floating_ip", FLOATING_IPS.show(call, ip), action=action)


def _server(call: Call, identity: int) -> Server:
    """The server that gets an address."""
    server = call.cloud.store.get(Server, call.project, identity)
    call.cloud.actions.check_free("server", server.id)
    if server.ipv4 is None and server.ipv6 is None:
        raise InvalidInput({"server": [f"server {server.id} has no public interface"]})
    return server


def _start(call: Call, command: str, ip: FloatingIp, server: Server, *others: Server) -> Action:
    return call.start(command, ip, server, effect=command, locks=(ip, server, *others))


@FLOATING_IPS.action("assign")
async def assign(call: Call, ip: FloatingIp, fields: Fields) -> Reply:
    """Lead the address to a server, also away from another one: Terraform's provider moves it so."""
    identity = fields.number("server", required=True)
    fields.check()
    if ip.server == identity:
        raise ApiError("floating_ip_assigned", "the floating IP is already assigned")
    server = _server(call, identity)
    before = [call.cloud.store.get(Server, call.project, ip.server)] if ip.server else []
    for other in before:
        call.cloud.actions.check_free("server", other.id)
    return await call.answer(_start(call, "assign_floating_ip", ip, server, *before))


@FLOATING_IPS.action("unassign")
async def unassign(call: Call, ip: FloatingIp, _fields: Fields) -> Reply:
    """Lead the address to nobody."""
    if ip.server is None:
        # Hetzner's document names no code for this.
        raise ApiError("invalid_input", "the floating IP is not assigned")
    server = call.cloud.store.get(Server, call.project, ip.server)
    call.cloud.actions.check_free("server", server.id)
    return await call.answer(_start(call, "unassign_floating_ip", ip, server))


@effect("assign_floating_ip", FloatingIp)
async def assign_effect(cloud: Cloud, ip: FloatingIp, action: Action) -> None:
    """The network leads the address to the machine."""
    server = cloud.store.get(Server, action.project, action.resources[1].id)
    if ip.server is not None:
        await _release(cloud, ip, ip.server)
        ip.server = None
        cloud.store.put(ip)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.assign_floating_ip(server.id, ip.ip)
    ip.server = server.id
    cloud.store.put(ip)


@effect("unassign_floating_ip", FloatingIp)
async def unassign_effect(cloud: Cloud, ip: FloatingIp, action: Action) -> None:
    """The network leads the address nowhere."""
    await _release(cloud, ip, action.resources[1].id)


async def _release(cloud: Cloud, ip: FloatingIp, server: int) -> None:
    async with cloud.exclusive("server", server):
        await cloud.backend.unassign_floating_ip(server, ip.ip)
    ip.server = None
    cloud.store.put(ip)


@FLOATING_IPS.action("change_dns_ptr")
async def change_dns_ptr(call: Call, ip: FloatingIp, fields: Fields) -> Reply:
    """Set or reset a reverse name."""
    address, name = read_dns_ptr(fields, {ip.ip})
    fields.check()
    set_name(ip, address, name)
    return await call.changed("change_dns_ptr", ip, locks=())  # of several addresses at once


@FLOATING_IPS.action("change_protection")
async def change_protection(call: Call, ip: FloatingIp, fields: Fields) -> Reply:
    """Protect against deletion, or not."""
    ip.protected = fields.flag("delete", ip.protected, required=True)
    fields.check()
    return await call.changed("change_protection", ip)


@reaction("server_deleted")
async def release(cloud: Cloud, server: Record) -> None:
    """A deleted server's floating IPs stay, led to nobody."""
    for ip in floating_ips_of(cloud, server.id):
        ip.server = None
        cloud.store.put(ip)
