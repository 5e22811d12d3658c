"""Operations on placement groups."""

from __future__ import annotations

from sandbox.cloud.call import Call
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.collection import Resource, check_unique, created
from sandbox.cloud.errors import ApiError
from sandbox.cloud.events import reaction
from sandbox.cloud.records import Record
from sandbox.cloud.registry import operation
from sandbox.cloud.reply import Reply
from sandbox.cloud.resources.placement_groups.state import PlacementGroup, placement_group_wire

GROUPS = Resource(
    "placement_groups",
    PlacementGroup,
    placement_group_wire,
    filters={"type": lambda _cloud, _group: "spread"},
)
GROUPS.add_reads()
GROUPS.add_update()


@operation("POST", "/placement_groups")
async def create(call: Call) -> Reply:
    """Make an empty group."""
    fields = call.fields()
    name, labels = GROUPS.read_name(fields), fields.labels()
    fields.choice("type", {"spread"}, required=True)
    fields.check()
    store = call.cloud.store
    check_unique(call, PlacementGroup, name)
    call.cloud.check_limit("placement_groups", store.count(PlacementGroup, call.project))
    group = PlacementGroup(
        id=store.new_id(PlacementGroup),
        project=call.project,
        name=name,
        labels=labels,
        created=call.cloud.now(),
    )
    store.put(group)
    return created("placement_group", GROUPS.show(call, group), action=None)


@operation("DELETE", "/placement_groups/{id}")
async def delete(call: Call) -> Reply:
    """Remove an empty group."""
    group = call.get(PlacementGroup)
    if group.servers:
        raise ApiError("resource_in_use", "placement group still has servers")
    call.cloud.store.remove(group)
    return Reply(204, None)


@reaction("server_deleted")
async def forget_server(cloud: Cloud, server: Record) -> None:
    """A deleted server leaves its group."""
    for group in cloud.store.all(PlacementGroup):
        if server.id in group.servers:
            group.servers.remove(server.id)
            cloud.store.put(group)
