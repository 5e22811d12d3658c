"""Operations on primary IPs."""

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.events import announce
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput
from hetzner_emulator.models.catalogs import LOCATION_CATALOG
from hetzner_emulator.models.primary_ips import (
    PrimaryIp,
    new_primary_ip,
    primary_ip_wire,
    read_dns_ptr,
    set_name,
)
from hetzner_emulator.models.servers import Server
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


def _check_unassigned(_cloud: Cloud, ip: PrimaryIp) -> None:
    if ip.assignee is not None:
        raise ApiError("must_be_unassigned", "primary IP must be unassigned before it can be deleted")


PRIMARY_IPS = Resource(
    "primary_ips",
    PrimaryIp,
    primary_ip_wire,
    sorts=("id", "created"),
    filters={"ip": lambda _cloud, ip: frozenset({ip.ip, ip.ip.partition("/")[0]})},
    flags=("auto_delete",),
    put_conflicts=True,
    protection="protected",
    check_delete=_check_unassigned,
)
PRIMARY_IPS.register()


@operation("POST", "/primary_ips")
async def _create(call: Call) -> Reply:
    fields, cloud = call.fields(), call.cloud
    name, labels = PRIMARY_IPS.read_name(fields), fields.labels()
    kind = fields.choice("type", {"ipv4", "ipv6"}, required=True)
    fields.choice("assignee_type", {"server"})
    assignee, auto_delete = fields.number("assignee_id"), fields.flag("auto_delete")
    location = fields.reference("location")
    if not assignee and not location:
        fields.wrong("location", "either location or assignee_id is required")
    fields.check()
    server = cloud.store.get(Server, call.project, assignee) if assignee else None
    PRIMARY_IPS.check_new(call, name)
    if server is not None:
        _check_assignable(call, server, kind)
    where = server.location if server else LOCATION_CATALOG.find(location).name
    ip = new_primary_ip(cloud, call.project, kind, where, name, auto_delete=auto_delete)
    ip.labels = labels
    cloud.store.put(ip)
    if server is None:
        return created("primary_ip", PRIMARY_IPS.show(call, ip))
    (action,) = await call.wires(_start(call, "assign_primary_ip", ip, server))
    return created("primary_ip", PRIMARY_IPS.show(call, ip), action=action)


def _check_assignable(call: Call, server: Server, kind: str) -> None:
    call.cloud.actions.check_free("server", server.id)
    if server.status != "off":
        raise ApiError("server_not_stopped", "the server is running, but needs to be powered off")
    if (server.ipv4 if kind == "ipv4" else server.ipv6) is not None:
        raise ApiError(f"server_has_{kind}", f"the server already has an {kind} address")


def _start(call: Call, command: str, ip: PrimaryIp, server: Server) -> Action:
    return call.run(command, ip, server, locks=(ip, server), server=server.id)


@PRIMARY_IPS.action("assign")
async def _assign(call: Call, ip: PrimaryIp, fields: Fields) -> Reply:
    fields.choice("assignee_type", {"server"})
    assignee = fields.number("assignee_id", required=True)
    fields.check()
    server = call.cloud.store.get(Server, call.project, assignee)
    if ip.assignee is not None:
        raise ApiError(
            "primary_ip_already_assigned", f"primary IP is already assigned to a different {ip.assignee_type}"
        )
    if ip.location != server.location:
        raise InvalidInput({"assignee_id": ["server and primary IP are in different locations"]})
    _check_assignable(call, server, ip.type)
    return await call.answer(_start(call, "assign_primary_ip", ip, server))


@PRIMARY_IPS.action("unassign")
async def _unassign(call: Call, ip: PrimaryIp, _fields: Fields) -> Reply:
    if ip.assignee is None:
        raise ApiError("primary_ip_not_assigned", "primary IP is not assigned")
    if ip.assignee_type != "server":
        text = "to unassign a primary IP from a load balancer, delete the load balancer"
        raise ApiError("invalid_input", text)
    server = call.cloud.store.get(Server, call.project, ip.assignee)
    call.cloud.actions.check_free("server", server.id)
    if server.status != "off":
        raise ApiError("server_not_stopped", "the server is running, but needs to be powered off")
    if ip.type == "ipv4":
        await announce("server_loses_ipv4", call.cloud, server)
    return await call.answer(_start(call, "unassign_primary_ip", ip, server))


@operation("POST", "/primary_ips/{id}/actions/change_dns_ptr")
async def _change_dns_ptr(call: Call) -> Reply:
    ip, fields = call.get(PrimaryIp), call.fields()
    address, name = read_dns_ptr(fields, {ip.ip})
    fields.check()
    set_name(ip, address, name)
    return await call.changed("change_dns_ptr", ip)


@operation("POST", "/primary_ips/{id}/actions/change_protection")
async def _change_protection(call: Call) -> Reply:
    ip, fields = call.get(PrimaryIp), call.fields()
    wanted = fields.flag("delete", ip.protected, required=True)
    if wanted and ip.auto_delete:
        fields.wrong("delete", "must be false if auto_delete is true")
    fields.check()
    ip.protected = wanted
    return await call.changed("change_protection", ip)
