"""The effect of networks' actions."""

import msgspec

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.networks import Network, NetworkRoute, Subnet, network_spec


@effect("change_network", Network)
async def _change(cloud: Cloud, network: Network, action: Action) -> None:
    """Set the subnets, routes, and range in the arguments."""
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
