"""Operations on networks themselves."""

from __future__ import annotations

from ipaddress import IPv4Network
from operator import attrgetter
from typing import Any

from hetzner_emulator.actions.events import announce
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import NETWORK_ZONES
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created, listing
from hetzner_emulator.backend import BackendError
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput, Protected
from hetzner_emulator.models.networks import (
    Member,
    Network,
    NetworkRoute,
    Subnet,
    members,
    network_spec,
    network_wire,
)
from hetzner_emulator.resources.networks.addressing import (
    free_subnet,
    range_problem,
    route_problems,
    subnet_problem,
)
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.pagination import filter_entries, sort_entries
from hetzner_emulator.wire.reply import Reply

NETWORKS = Resource(
    "networks",
    Network,
    network_wire,
    flags=("expose_routes_to_vswitch",),
    put_conflicts=True,
    deletes=False,
    of_state=True,
)
NETWORKS.register()


@operation("POST", "/networks")
async def create(call: Call) -> Reply:
    """Make a network, with subnets and routes if given."""
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
        network.subnets.append(read_subnet(cloud, item, network))
    for item in route_fields:
        network.routes.append(read_route(item, network))
    try:
        await cloud.backend.put_network(network_spec(network))
    except BackendError as error:
        raise ApiError("server_error", str(error)) from error
    cloud.store.put(network)
    return created("network", NETWORKS.show(call, network))


def read_subnet(cloud: Cloud, fields: Fields, network: Network) -> Subnet:
    """A subnet that fits into a network.

    Raises:
        InvalidInput: It does not.
        ApiError: ``vswitch_id_already_used``; another network is connected to it. ``service_error``; there is
            no such vSwitch.
    """
    kind = fields.choice("type", {"cloud", "server", "vswitch"}, required=True)
    zone = fields.choice("network_zone", NETWORK_ZONES, required=True)
    wanted, whole = fields.network("ip_range"), IPv4Network(network.ip_range)
    vswitch = fields.number("vswitch_id", required=True) if kind == "vswitch" else None
    if wanted is not None and (problem := subnet_problem(whole, network.subnets, wanted, network.routes)):
        fields.wrong("ip_range", problem)
    zones = {subnet.network_zone for subnet in network.subnets}
    if zones - {zone}:
        fields.wrong("network_zone", f"all subnets of a network must be in one zone, here {zones.pop()}")
    fields.check()
    if vswitch is not None and vswitch not in cloud.vswitches:
        raise ApiError("service_error", "vswitch not found")
    others = (
        subnet for other in cloud.store.all(Network) if other is not network for subnet in other.subnets
    )
    if vswitch is not None and any(subnet.vswitch_id == vswitch for subnet in others):
        raise ApiError("vswitch_id_already_used", f"vSwitch {vswitch} is already used by another network")
    return Subnet(kind, str(wanted or free_subnet(whole, network.subnets, network.routes)), zone, vswitch)


def read_route(fields: Fields, network: Network) -> NetworkRoute:
    """A route that a network can have.

    Raises:
        InvalidInput: It can't.
    """
    destination = fields.network("destination", required=True)
    gateway = fields.address("gateway", required=True)
    fields.check()
    route = NetworkRoute(str(destination), str(gateway))
    if problems := route_problems(IPv4Network(network.ip_range), network.subnets, network.routes, route):
        raise InvalidInput(problems)
    return route


@operation("DELETE", "/networks/{id}")
async def delete(call: Call) -> Reply:
    """Remove a network; what is attached is detached."""
    network, cloud = call.get_free(Network), call.cloud
    if network.protected:
        raise Protected("network")
    cloud.store.remove(network)  # first, so that nothing is attached to it any more
    try:
        await announce("network_deleted", cloud, network)
        await cloud.backend.delete_network(network.id)
    except BackendError as error:
        cloud.store.put(network)
        raise ApiError("server_error", str(error)) from error
    return Reply(204, None)


@operation("GET", "/networks/{id}/members")
async def list_members(call: Call) -> Reply:
    """Who is attached, with addresses and status."""
    network = call.get(Network)
    known = [_MemberEntry(network, member) for member in members(call.cloud.store, network.id)]
    fields = {name: attrgetter(name) for name in ("type", "status", "subnet")}
    found = filter_entries(known, call.query, fields)
    found = sort_entries(found, call.query.getall("sort", []), ("id", "type", "status", "ip"))
    return listing(call, "members", found, _MemberEntry.wire)


class _MemberEntry:
    def __init__(self, network: Network, member: Member) -> None:
        self.id, self.type = member.id, member.type
        self.ip, self.status = member.attachment.ip, member.attachment.status
        self.alias_ips = member.attachment.alias_ips
        self.subnet = subnet_of(network, self.ip)

    def wire(self) -> dict[str, Any]:
        """As the API shows it."""
        names = ("id", "type", "ip", "alias_ips", "subnet", "status")
        return {name: getattr(self, name) for name in names}


def subnet_of(network: Network, ip: str) -> str:
    """Range of the subnet that an address is in, or "" if that subnet is gone."""
    return next((s.ip_range for s in network.subnets if _contains(s.ip_range, ip)), "")


def _contains(ip_range: str, ip: str) -> bool:
    return IPv4Network(f"{ip}/32").subnet_of(IPv4Network(ip_range))
