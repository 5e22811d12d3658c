"""Operations on Storage Boxes: the list is empty, and the emulator refuses all other operations."""

from itertools import product

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import add_operation
from hetzner_emulator.api.resource import listing
from hetzner_emulator.errors import ApiError
from hetzner_emulator.wire.reply import Reply

_PATHS = ("/storage_boxes", "/storage_box_types")
REFUSED = tuple(f"* {path}*" for path in _PATHS)
"""The patterns of the refused operations. In a pattern, ``*`` matches any text."""

_MAX_DEPTH = 5  # /storage_boxes/{id}/subaccounts/{id}/actions/{action}


async def _refuse(_call: Call) -> Reply:
    text = "the sandbox doesn't support Storage Boxes, which are a separate product with their own API"
    raise ApiError("unsupported_error", text, status=501)


async def _list(call: Call) -> Reply:
    """List none: ``hcloud all list`` reads Storage Boxes with everything else."""
    return listing(call, "storage_boxes", (), lambda entry: entry)


for _method, _path, _depth in product(("GET", "POST", "PUT", "DELETE"), _PATHS, range(_MAX_DEPTH + 1)):
    add_operation(_method, _path + "".join(f"/{{part{number}}}" for number in range(_depth)), _refuse)
add_operation("GET", "/storage_boxes", _list)
