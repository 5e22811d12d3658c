"""Operations on the actions of all resources."""

from hetzner_emulator.actions.actions import Action, action_wire
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import ACTION_SORTS
from hetzner_emulator.errors import ApiError, InvalidInput, NotFound
from hetzner_emulator.wire.pagination import sort_entries
from hetzner_emulator.wire.reply import Reply

_ANNOUNCEMENT = (
    "https://docs.hetzner.cloud/changelog"
    "#2025-01-30-listing-arbitrary-actions-in-the-actions-list-endpoint-is-removed"
)


@operation("GET", "/actions")
async def _list(call: Call) -> Reply:
    """The actions with the given ids, without those that don't exist."""
    texts = call.query.getall("id", [])
    if not texts:
        raise ApiError(
            "deprecated_api_endpoint", "API functionality was removed", {"announcement": _ANNOUNCEMENT}
        )
    if not all(len(text) < 20 and text.isdecimal() and text.isascii() for text in texts):
        raise InvalidInput({"id": ["must be an integer"]})
    found = [call.cloud.store.find(Action, identity) for identity in dict.fromkeys(map(int, texts))]
    actions = [action for action in found if action is not None and action.project == call.project]
    actions = sort_entries(actions, call.query.getall("sort", []), ACTION_SORTS)
    now = call.cloud.now()
    page = {"page": 1, "per_page": 50, "previous_page": None, "next_page": None, "last_page": 1}
    meta = {"pagination": {**page, "total_entries": len(actions)}}
    return Reply(200, {"actions": [action_wire(action, now) for action in actions], "meta": meta})


@operation("GET", "/actions/{id}")
async def _get(call: Call) -> Reply:
    identity = call.identity("id", "action")
    action = call.cloud.store.find(Action, identity)
    if action is None or action.project != call.project:
        raise NotFound("action", identity)
    return Reply(200, {"action": action_wire(action, call.cloud.now())})
