"""Removes deleted servers from placement groups."""

from hetzner_emulator.actions.events import reaction
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.placement_groups import PlacementGroup
from hetzner_emulator.state.records import Record


@reaction("server_deleted")
async def _forget_server(cloud: Cloud, server: Record) -> None:
    for group in cloud.store.all(PlacementGroup):
        if server.id in group.servers:
            group.servers.remove(server.id)
            cloud.store.put(group)
