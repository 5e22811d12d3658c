"""Placement groups."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from hetzner_emulator.actions.events import reaction
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.state.records import Record, record
from hetzner_emulator.wire.reply import Reply

MAXIMUM_SERVERS = 10


@record
class PlacementGroup(Record):
    """Servers that run on different hosts."""

    KIND: ClassVar[str] = "placement_group"
    FIRST_ID: ClassVar[int] = 5_000_001

    servers: list[int] = msgspec.field(default_factory=list)


def placement_group_wire(_cloud: Cloud, group: PlacementGroup) -> dict[str, Any]:
    """The group as the API shows it."""
    return {**group.common_wire(), "type": "spread", "servers": group.servers}


def check_room(group: PlacementGroup) -> None:
    """Refuse the eleventh server.

    Raises:
        ApiError: ``service_error``; the group is full.
    """
    if len(group.servers) >= MAXIMUM_SERVERS:
        text = f"placement group {group.id} contains already {MAXIMUM_SERVERS} servers"
        raise ApiError("service_error", text)


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
