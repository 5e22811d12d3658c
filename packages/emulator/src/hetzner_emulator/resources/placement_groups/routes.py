"""Operations on placement groups."""

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.placement_groups import PlacementGroup, placement_group_wire
from hetzner_emulator.wire.reply import Reply


def _check_empty(_cloud: Cloud, group: PlacementGroup) -> None:
    if group.servers:
        raise ApiError("resource_in_use", "placement group still has servers")


GROUPS = Resource(
    "placement_groups",
    PlacementGroup,
    placement_group_wire,
    filters={"type": lambda _cloud, _group: "spread"},
    check_delete=_check_empty,
    actions=False,
)
GROUPS.register()


@operation("POST", "/placement_groups")
async def _create(call: Call) -> Reply:
    fields = call.fields()
    name, labels = GROUPS.read_name(fields), fields.labels()
    fields.choice("type", {"spread"}, required=True)
    fields.check()
    GROUPS.check_new(call, name)
    group = GROUPS.new(call, name, labels)
    call.cloud.store.put(group)
    return created("placement_group", GROUPS.show(call, group), action=None)
