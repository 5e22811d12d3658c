"""Placement groups."""

from __future__ import annotations

from hetzner_emulator.actions.events import reaction
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.placement_groups import PlacementGroup, placement_group_wire
from hetzner_emulator.state.records import Record
from hetzner_emulator.wire.reply import Reply


def check_empty(_cloud: Cloud, group: PlacementGroup) -> None:
    """Refuse to remove a group that has servers.

    Raises:
        ApiError: ``resource_in_use``; it has.
    """
    if group.servers:
        raise ApiError("resource_in_use", "placement group still has servers")


GROUPS = Resource(
    "placement_groups",
    PlacementGroup,
    placement_group_wire,
    filters={"type": lambda _cloud, _group: "spread"},
    check_delete=check_empty,
    actions=False,
)
GROUPS.register()


@operation("POST", "/placement_groups")
async def create(call: Call) -> Reply:
    """Make an empty group."""
    fields = call.fields()
    name, labels = GROUPS.read_name(fields), fields.labels()
    fields.choice("type", {"spread"}, required=True)
    fields.check()
    GROUPS.check_new(call, name)
    group = GROUPS.new(call, name, labels)
    call.cloud.store.put(group)
    return created("placement_group", GROUPS.show(call, group), action=None)


@reaction("server_deleted")
async def forget_server(cloud: Cloud, server: Record) -> None:
    """A deleted server leaves its group."""
    for group in cloud.store.all(PlacementGroup):
        if server.id in group.servers:
            group.servers.remove(server.id)
            cloud.store.put(group)
