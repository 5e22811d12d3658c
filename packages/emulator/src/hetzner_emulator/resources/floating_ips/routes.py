"""Operations on floating IPs."""

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput
from hetzner_emulator.models.catalogs import LOCATION_CATALOG
from hetzner_emulator.models.floating_ips import FloatingIp, floating_ip_wire
from hetzner_emulator.models.primary_ips import default_name, read_dns_ptr, set_name
from hetzner_emulator.models.servers import Server
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


def _check_unassigned(_cloud: Cloud, ip: FloatingIp) -> None:
    if ip.server is not None:
        raise ApiError("must_be_unassigned", "floating IP must be unassigned before it can be deleted")


FLOATING_IPS = Resource(
    "floating_ips",
    FloatingIp,
    floating_ip_wire,
    sorts=("id", "created"),
    texts=("description",),
    protection="protected",
    changes_protection="required",
    check_delete=_check_unassigned,
)
FLOATING_IPS.register()


@operation("POST", "/floating_ips")
async def _create(call: Call) -> Reply:
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
    """The server to assign an address to."""
    server = call.cloud.store.get(Server, call.project, identity)
    call.cloud.actions.check_free("server", server.id)
    if server.ipv4 is None and server.ipv6 is None:
        raise InvalidInput({"server": [f"server {server.id} has no public interface"]})
    return server


def _start(call: Call, command: str, ip: FloatingIp, server: Server, *others: Server) -> Action:
    return call.run(command, ip, server, locks=(ip, server, *others))


@FLOATING_IPS.action("assign")
async def _assign(call: Call, ip: FloatingIp, fields: Fields) -> Reply:
    """Assign the address to a server, or move it there from another one, as Terraform's provider does."""
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
async def _unassign(call: Call, ip: FloatingIp, _fields: Fields) -> Reply:
    if ip.server is None:
        # Hetzner's document names no code for this.
        raise ApiError("invalid_input", "the floating IP is not assigned")
    server = call.cloud.store.get(Server, call.project, ip.server)
    call.cloud.actions.check_free("server", server.id)
    return await call.answer(_start(call, "unassign_floating_ip", ip, server))


@FLOATING_IPS.action("change_dns_ptr")
async def _change_dns_ptr(call: Call, ip: FloatingIp, fields: Fields) -> Reply:
    address, name = read_dns_ptr(fields, {ip.ip})
    fields.check()
    set_name(ip, address, name)
    return await call.changed("change_dns_ptr", ip, locks=())  # for several addresses at once
