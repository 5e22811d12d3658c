"""What is kept of a placement group."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.state.records import Record, record

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
