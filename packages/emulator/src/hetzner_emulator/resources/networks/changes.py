"""Actions of networks: subnets, routes, range and protection."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network

import msgspec

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect
from hetzner_emulator.api.call import Call
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput
from hetzner_emulator.models.networks import Network, NetworkRoute, Subnet, members, network_spec
from hetzner_emulator.resources.networks.addressing import range_problem
from hetzner_emulator.resources.networks.resource import NETWORKS, read_route, read_subnet
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


@effect("change_network", Network)
async def change_network(cloud: Cloud, network: Network, action: Action) -> None:
    """Give a network the subnets, routes and range in the arguments."""
    wanted = msgspec.structs.replace(
        network,
        ip_range=action.arguments["ip_range"],
        subnets=msgspec.convert(action.arguments["subnets"], list[Subnet]),
        routes=msgspec.convert(action.arguments["routes"], list[NetworkRoute]),
    )
    async with cloud.exclusive("network", network.id):
        await cloud.backend.put_network(network_spec(wanted))
    network.ip_range, network.subnets, network.routes = wanted.ip_range, wanted.subnets, wanted.routes
    cloud.store.put(network)


async def _change(
    call: Call,
    command: str,
    network: Network,
    *,
    subnets: Sequence[Subnet] | None = None,
    routes: Sequence[NetworkRoute] | None = None,
    ip_range: str | None = None,
) -> Reply:
    arguments = {
        "ip_range": ip_range or network.ip_range,
        "subnets": msgspec.to_builtins(network.subnets if subnets is None else subnets),
        "routes": msgspec.to_builtins(network.routes if routes is None else routes),
    }
    return await call.act(command, network, effect="change_network", **arguments)


@NETWORKS.action("add_subnet")
async def add_subnet(call: Call, network: Network, fields: Fields) -> Reply:
    """Add a subnet; the first free /24 if no range is given."""
    call.cloud.check_limit("network_subnets", len(network.subnets))
    subnet = read_subnet(call.cloud, fields, network)
    return await _change(call, "add_subnet", network, subnets=[*network.subnets, subnet])


@NETWORKS.action("delete_subnet")
async def delete_subnet(call: Call, network: Network, fields: Fields) -> Reply:
    """Remove a subnet that nothing is attached to."""
    ip_range = fields.network("ip_range", required=True)
    fields.check()
    subnet = next((s for s in network.subnets if s.ip_range == str(ip_range)), None)
    if subnet is None:
        raise ApiError("not_found", f"subnet '{ip_range}' not found in network {network.id}")
    attached = members(call.cloud.store, network.id)
    if any(
        IPv4Network(f"{member.attachment.ip}/32").subnet_of(IPv4Network(subnet.ip_range))
        for member in attached
    ):
        # The Terraform and Pulumi providers wait when they read exactly this text.
        raise ApiError("service_error", "cannot remove subnet because servers are attached to it")
    return await _change(call, "delete_subnet", network, subnets=[s for s in network.subnets if s != subnet])


@NETWORKS.action("add_route")
async def add_route(call: Call, network: Network, fields: Fields) -> Reply:
    """Add a route."""
    call.cloud.check_limit("network_routes", len(network.routes))
    route = read_route(fields, network)
    return await _change(call, "add_route", network, routes=[*network.routes, route])


@NETWORKS.action("delete_route")
async def delete_route(call: Call, network: Network, fields: Fields) -> Reply:
    """Remove a route."""
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
async def change_ip_range(call: Call, network: Network, fields: Fields) -> Reply:
    """Extend the range at its end."""
    wanted, present = fields.network("ip_range", required=True), IPv4Network(network.ip_range)
    fields.check()
    if wanted is None or wanted.network_address != present.network_address or not wanted.supernet_of(present):
        raise InvalidInput({"ip_range": ["can only be extended at its end"]})
    if problem := range_problem(wanted):
        raise InvalidInput({"ip_range": [problem]})
    return await _change(call, "change_ip_range", network, ip_range=str(wanted))


@NETWORKS.action("change_protection")
async def change_protection(call: Call, network: Network, fields: Fields) -> Reply:
    """Protect against deletion, or not."""
    network.protected = fields.flag("delete", network.protected)
    fields.check()
    return await call.changed("change_protection", network)
