"""Operations on primary IPs."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network

from sandbox.cloud.actions import Action, action_wire
from sandbox.cloud.call import Call
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.collection import Resource, action_reply, check_unique
from sandbox.cloud.effects import effect
from sandbox.cloud.errors import ApiError, Conflict, InvalidInput, Protected
from sandbox.cloud.events import announce, reaction
from sandbox.cloud.fields import Fields
from sandbox.cloud.records import Record, Reference
from sandbox.cloud.registry import operation
from sandbox.cloud.reply import Reply
from sandbox.cloud.resources.locations import find_location
from sandbox.cloud.resources.primary_ips.state import PrimaryIp, new_primary_ip, primary_ip_wire, set_name
from sandbox.cloud.resources.servers.state import Server, server_spec

PRIMARY_IPS = Resource(
    "primary_ips", PrimaryIp, primary_ip_wire, ("id", "created", "name"), {"ip": lambda _cloud, ip: ip.ip}
)
PRIMARY_IPS.add_reads()
PRIMARY_IPS.add_actions()


@operation("POST", "/primary_ips")
async def create(call: Call) -> Reply:
    """Take an address, and give it to a stopped server if one is named."""
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
    check_unique(call, PrimaryIp, name)
    if server is not None:
        _check_assignable(call, server, kind)
    where = server.location if server else find_location(location).name
    ip = new_primary_ip(cloud, call.project, kind, where, name, auto_delete=auto_delete)
    ip.labels = labels
    cloud.store.put(ip)
    body = {"primary_ip": PRIMARY_IPS.show(call, ip)}
    if server is not None:
        action = _start(call, "assign_primary_ip", ip, server)
        await cloud.actions.settle()
        body = {"primary_ip": PRIMARY_IPS.show(call, ip), "action": action_wire(action, cloud.now())}
    return Reply(201, body)


def _check_assignable(call: Call, server: Server, kind: str) -> None:
    call.cloud.actions.check_free("server", server.id)
    if server.status != "off":
        raise ApiError("server_not_stopped", "the server is running, but needs to be powered off")
    if (server.ipv4 if kind == "ipv4" else server.ipv6) is not None:
        raise ApiError(f"server_has_{kind}", f"the server already has an {kind} address")


def _start(call: Call, command: str, ip: PrimaryIp, server: Server) -> Action:
    resources = [Reference("primary_ip", ip.id), Reference("server", server.id)]
    return call.cloud.actions.start(
        command, call.project, resources, effect=command, arguments={"server": server.id}, locks=resources
    )


@operation("PUT", "/primary_ips/{id}")
async def update(call: Call) -> Reply:
    """Change name, labels and whether it goes with its server."""
    ip, fields = call.get(PrimaryIp), call.fields()
    if call.cloud.actions.locked("primary_ip", ip.id):
        raise Conflict("primary_ip")
    auto_delete = fields.flag("auto_delete", ip.auto_delete)
    PRIMARY_IPS.apply_update(call, ip, fields)
    ip.auto_delete = auto_delete
    return Reply(200, {"primary_ip": PRIMARY_IPS.show(call, ip)})


@operation("DELETE", "/primary_ips/{id}")
async def delete(call: Call) -> Reply:
    """Give an unassigned address back."""
    ip = call.get(PrimaryIp)
    call.cloud.actions.check_free("primary_ip", ip.id)
    if ip.protected:
        raise Protected("primary_ip")
    if ip.assignee is not None:
        raise ApiError("must_be_unassigned", "primary IP must be unassigned before it can be deleted")
    call.cloud.store.remove(ip)
    return Reply(204, None)


@operation("POST", "/primary_ips/{id}/actions/assign")
async def assign(call: Call) -> Reply:
    """Give the address to a stopped server."""
    ip, fields = call.get(PrimaryIp), call.fields()
    call.cloud.actions.check_free("primary_ip", ip.id)
    fields.choice("assignee_type", {"server"})
    assignee = fields.number("assignee_id", required=True)
    fields.check()
    server = call.cloud.store.get(Server, call.project, assignee)
    if ip.assignee is not None:
        raise ApiError("primary_ip_already_assigned", "primary IP is already assigned to a different server")
    if ip.location != server.location:
        raise InvalidInput({"assignee_id": ["server and primary IP are in different locations"]})
    _check_assignable(call, server, ip.type)
    return await action_reply(call, _start(call, "assign_primary_ip", ip, server))


@operation("POST", "/primary_ips/{id}/actions/unassign")
async def unassign(call: Call) -> Reply:
    """Take the address from a stopped server."""
    ip = call.get(PrimaryIp)
    call.cloud.actions.check_free("primary_ip", ip.id)
    if ip.assignee is None:
        raise ApiError("primary_ip_not_assigned", "primary IP is not assigned")
    server = call.cloud.store.get(Server, call.project, ip.assignee)
    call.cloud.actions.check_free("server", server.id)
    if server.status != "off":
        raise ApiError("server_not_stopped", "the server is running, but needs to be powered off")
    if ip.type == "ipv4":
        await announce("server_loses_ipv4", call.cloud, server)
    return await action_reply(call, _start(call, "unassign_primary_ip", ip, server))


@effect("assign_primary_ip")
async def assign_effect(cloud: Cloud, action: Action) -> None:
    """The server gets the address."""
    await _set(cloud, action, present=True)


@effect("unassign_primary_ip")
async def unassign_effect(cloud: Cloud, action: Action) -> None:
    """The server loses the address."""
    await _set(cloud, action, present=False)


async def _set(cloud: Cloud, action: Action, *, present: bool) -> None:
    ip = cloud.store.get(PrimaryIp, action.project, action.resources[0].id)
    server = cloud.store.get(Server, action.project, action.arguments["server"])
    ip.assignee = server.id if present else None
    if ip.type == "ipv4":
        server.ipv4 = ip.id if present else None
    else:
        server.ipv6 = ip.id if present else None
    cloud.store.put(ip)
    cloud.store.put(server)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.create_machine(server_spec(cloud, server))
    await announce("server_changed", cloud, server)


@operation("POST", "/primary_ips/{id}/actions/change_dns_ptr")
async def change_dns_ptr(call: Call) -> Reply:
    """Set or reset a reverse name."""
    ip, fields = call.get(PrimaryIp), call.fields()
    address, name = read_dns_ptr(fields, {ip.ip})
    fields.check()
    set_name(ip, address, name)
    call.cloud.store.put(ip)
    action = call.cloud.actions.start("change_dns_ptr", call.project, [Reference("primary_ip", ip.id)])
    return await action_reply(call, action)


def read_dns_ptr(fields: Fields, own: set[str]) -> tuple[str, str | None]:
    """The fields ``ip`` and ``dns_ptr``; the address must be one of ``own`` (addresses or /64 networks)."""
    text = fields.text("ip", required=True)
    name = fields.text("dns_ptr") if "dns_ptr" in fields else None
    if text and not any(_within(text, candidate) for candidate in own):
        fields.wrong("ip", f"'{text}' does not belong to the resource")
    return text, name


def _within(text: str, candidate: str) -> bool:
    try:
        if ":" in candidate:
            network = IPv6Network(candidate if "/" in candidate else f"{candidate}/128")
            return IPv6Address(text) in network
        return IPv4Address(text) == IPv4Address(candidate)
    except ValueError:
        return False


@operation("POST", "/primary_ips/{id}/actions/change_protection")
async def change_protection(call: Call) -> Reply:
    """Protect against deletion, or not."""
    ip, fields = call.get(PrimaryIp), call.fields()
    wanted = fields.flag("delete", ip.protected, required=True)
    if wanted and ip.auto_delete:
        fields.wrong("delete", "can only be enabled if auto_delete is false")
    fields.check()
    ip.protected = wanted
    call.cloud.store.put(ip)
    action = call.cloud.actions.start("change_protection", call.project, [Reference("primary_ip", ip.id)])
    return await action_reply(call, action)


@reaction("server_deleted")
async def release(cloud: Cloud, server: Record) -> None:
    """A deleted server's addresses go with it or become free."""
    for ip in list(cloud.store.lookup("assignee", server.id)):
        if not isinstance(ip, PrimaryIp):
            continue
        ip.assignee = None
        if ip.auto_delete and not ip.protected:
            cloud.store.remove(ip)
        else:
            cloud.store.put(ip)
