"""The record of a placement group."""

from typing import Any, ClassVar

import msgspec

from hetzner_emulator.cloud import Cloud
from hetzner_emulator.state.records import Record, record


@record
class PlacementGroup(Record):
    """Servers that run on different hosts."""

    KIND: ClassVar[str] = "placement_group"
    FIRST_ID: ClassVar[int] = 5_000_001

    servers: list[int] = msgspec.field(default_factory=list)


def placement_group_wire(_cloud: Cloud, group: PlacementGroup) -> dict[str, Any]:
    """The group as the API shows it."""
    return {**group.common_wire(), "type": "spread", "servers": group.servers}
