"""Operations on networks."""

from ipaddress import IPv4Network
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from hetzner_emulator.actions.events import announce
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import NETWORK_ZONES
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created, listing
from hetzner_emulator.backend import BackendError
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput
from hetzner_emulator.models.networks import (
    Network,
    NetworkRoute,
    Subnet,
    members,
    network_spec,
    network_wire,
    subnet_of,
)
from hetzner_emulator.resources.networks.rules import (
    free_subnet,
    range_problem,
    route_problems,
    subnet_problem,
)
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.pagination import filter_entries, sort_entries
from hetzner_emulator.wire.reply import Reply


async def _delete(cloud: Cloud, network: Network) -> None:
    await announce("network_deleted", cloud, network)
    await cloud.backend.delete_network(network.id)


NETWORKS = Resource(
    "networks",
    Network,
    network_wire,
    flags=("expose_routes_to_vswitch",),
    put_conflicts=True,
    protection="protected",
    changes_protection="optional",
    delete_from_backend=_delete,
    backend_error="server_error",
    of_state=True,
)
NETWORKS.register()


@operation("POST", "/networks")
async def _create(call: Call) -> Reply:
    fields, cloud = call.fields(), call.cloud
    name, labels = NETWORKS.read_name(fields), fields.labels()
    ip_range = fields.network("ip_range", required=True)
    if ip_range is not None and (problem := range_problem(ip_range)):
        fields.wrong("ip_range", problem)
    expose = fields.flag("expose_routes_to_vswitch")
    subnet_fields, route_fields = fields.objects("subnets"), fields.objects("routes")
    fields.check()
    NETWORKS.check_new(call, name)
    network = NETWORKS.new(call, name, labels, ip_range=str(ip_range), expose_routes_to_vswitch=expose)
    cloud.check_limit("network_subnets", 0, len(subnet_fields))
    cloud.check_limit("network_routes", 0, len(route_fields))
    for item in subnet_fields:
        network.subnets.append(_read_subnet(cloud, item, network))
    for item in route_fields:
        network.routes.append(_read_route(item, network))
    try:
        await cloud.backend.put_network(network_spec(network))
    except BackendError as error:
        raise ApiError("server_error", str(error)) from error
    cloud.store.put(network)
    return created("network", NETWORKS.show(call, network))


def _read_subnet(cloud: Cloud, fields: Fields, network: Network) -> Subnet:
    """A new subnet, unless the network can't have it."""
    kind = fields.choice("type", {"cloud", "server", "vswitch"}, required=True)
    zone = fields.choice("network_zone", NETWORK_ZONES, required=True)
    wanted, whole = fields.network("ip_range"), IPv4Network(network.ip_range)
    vswitch = fields.number("vswitch_id", required=True) if kind == "vswitch" else None
    if wanted is not None and (problem := subnet_problem(whole, network.subnets, wanted, network.routes)):
        fields.wrong("ip_range", problem)
    zones = {subnet.network_zone for subnet in network.subnets}
    if zones - {zone}:
        fields.wrong("network_zone", f"must be {zones.pop()}, the network zone of the other subnets")
    fields.check()
    if vswitch is not None and vswitch not in cloud.vswitches:
        raise ApiError("service_error", "vswitch not found")
    others = (
        subnet for other in cloud.store.all(Network) if other is not network for subnet in other.subnets
    )
    if vswitch is not None and any(subnet.vswitch_id == vswitch for subnet in others):
        raise ApiError("vswitch_id_already_used", f"vSwitch {vswitch} is already used by another network")
    return Subnet(kind, str(wanted or free_subnet(whole, network.subnets, network.routes)), zone, vswitch)


def _read_route(fields: Fields, network: Network) -> NetworkRoute:
    """A new route, unless the network can't have it."""
    destination = fields.network("destination", required=True)
    gateway = fields.address("gateway", required=True)
    fields.check()
    route = NetworkRoute(str(destination), str(gateway))
    if problems := route_problems(IPv4Network(network.ip_range), network.subnets, network.routes, route):
        raise InvalidInput(problems)
    return route


async def _change(call: Call, command: str, network: Network, **changed: Any) -> Reply:
    wanted = {name: changed.get(name, getattr(network, name)) for name in ("ip_range", "subnets", "routes")}
    return await call.act(command, network, effect="change_network", **msgspec.to_builtins(wanted))


@NETWORKS.action("add_subnet")
async def _add_subnet(call: Call, network: Network, fields: Fields) -> Reply:
    """Add a subnet; the first free /24 if no range is given."""
    call.cloud.check_limit("network_subnets", len(network.subnets))
    subnet = _read_subnet(call.cloud, fields, network)
    return await _change(call, "add_subnet", network, subnets=[*network.subnets, subnet])


@NETWORKS.action("delete_subnet")
async def _delete_subnet(call: Call, network: Network, fields: Fields) -> Reply:
    """Remove a subnet without members."""
    ip_range = fields.network("ip_range", required=True)
    fields.check()
    subnet = next((s for s in network.subnets if s.ip_range == str(ip_range)), None)
    if subnet is None:
        raise ApiError("not_found", f"subnet '{ip_range}' not found in network {network.id}")
    attached = members(call.cloud.store, network.id)
    if any(subnet_of(network, member.attachment.ip) == subnet.ip_range for member in attached):
        # The Terraform and Pulumi providers wait when they read exactly this text.
        raise ApiError("service_error", "cannot remove subnet because servers are attached to it")
    return await _change(call, "delete_subnet", network, subnets=[s for s in network.subnets if s != subnet])


@NETWORKS.action("add_route")
async def _add_route(call: Call, network: Network, fields: Fields) -> Reply:
    call.cloud.check_limit("network_routes", len(network.routes))
    route = _read_route(fields, network)
    return await _change(call, "add_route", network, routes=[*network.routes, route])


@NETWORKS.action("delete_route")
async def _delete_route(call: Call, network: Network, fields: Fields) -> Reply:
    destination = fields.network("destination", required=True)
    gateway = fields.address("gateway", required=True)
    fields.check()
    route = NetworkRoute(str(destination), str(gateway))
    if route not in network.routes:
        raise ApiError(
            "not_found", f"route '{destination}' via '{gateway}' not found in network {network.id}"
        )
    return await _change(call, "delete_route", network, routes=[r for r in network.routes if r != route])


@NETWORKS.action("change_ip_range")
async def _change_ip_range(call: Call, network: Network, fields: Fields) -> Reply:
    """Extend the range at its end."""
    wanted, present = fields.network("ip_range", required=True), IPv4Network(network.ip_range)
    fields.check()
    if wanted is None or wanted.network_address != present.network_address or not wanted.supernet_of(present):
        raise InvalidInput(
            {"ip_range": ["must begin with the same address as before, and must not become smaller"]}
        )
    if problem := range_problem(wanted):
        raise InvalidInput({"ip_range": [problem]})
    return await _change(call, "change_ip_range", network, ip_range=str(wanted))


class _Member(NamedTuple):
    id: int
    type: str
    ip: str
    alias_ips: list[str]
    subnet: str
    status: str


@operation("GET", "/networks/{id}/members")
async def _list_members(call: Call) -> Reply:
    network = call.get(Network)
    entries = [
        _Member(member.id, member.type, at.ip, at.alias_ips, subnet_of(network, at.ip), at.status)
        for member in members(call.cloud.store, network.id)
        for at in [member.attachment]
    ]
    fields = {name: attrgetter(name) for name in ("type", "status", "subnet")}
    found = filter_entries(entries, call.query, fields)
    found = sort_entries(found, call.query.getall("sort", []), ("id", "type", "status", "ip"))
    return listing(call, "members", found, _Member._asdict)
