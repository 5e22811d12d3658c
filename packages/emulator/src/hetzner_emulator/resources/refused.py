"""Operations that the sandbox doesn't have and won't pretend to have: each is refused with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import Handler, add_operation
from hetzner_emulator.api.resource import listing
from hetzner_emulator.errors import ApiError
from hetzner_emulator.wire.reply import Reply

_NO_STORAGE_BOXES = "no Storage Boxes, which are another product behind another address"
REFUSED: Mapping[str, str] = {
    "* /storage_boxes*": _NO_STORAGE_BOXES,
    "* /storage_box_types*": _NO_STORAGE_BOXES,
}
"""What the sandbox has not, by operation; ``*`` stands for anything."""

_DEEPEST = 5  # /storage_boxes/{id}/subaccounts/{id}/actions/{action}


def _refuse(reason: str) -> Handler:
    async def handler(_call: Call) -> Reply:
        text = f"the sandbox has {reason}"
        raise ApiError("unsupported_error", text, status=501)

    return handler


async def _no_storage_boxes(call: Call) -> Reply:
    """No project has any: ``hcloud all list`` asks for them among all else."""
    return listing(call, "storage_boxes", (), lambda entry: entry)


for _name, _reason in REFUSED.items():
    _method, _, _path = _name.partition(" ")
    if _method != "*":
        add_operation(_method, _path, _refuse(_reason))
        continue
    for _verb, _depth in product(("GET", "POST", "PUT", "DELETE"), range(_DEEPEST + 1)):
        _below = "".join(f"/{{part{number}}}" for number in range(_depth))
        add_operation(_verb, _path.removesuffix("*") + _below, _refuse(_reason))
add_operation("GET", "/storage_boxes", _no_storage_boxes)
