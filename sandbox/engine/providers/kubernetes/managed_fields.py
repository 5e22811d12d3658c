"""Ownership of fields: what a POST has set must belong to the applying manager before it is applied. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CREATOR = "pulumi-kubernetes"


def union(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both sets of fields (in the notation of ``fieldsV1``) together."""
    merged = dict(first)
    for key, value in second.items():
        merged[key] = union(merged[key], value) if key in merged else value
    return merged


def taken_over(
    entries: Sequence[Mapping[str, Any]], manager: str, version: str
) -> list[dict[str, Any]] | None:
    """Managed fields with those of our POST moved to the applying manager, as client-go's csaupgrade does it.

    Returns:
        The new list, or None where nothing has to be moved.
    """
    ours = [item for item in entries if _is_creation(item)]
    if not ours:
        return None
    applied = [
        item for item in entries if item.get("manager") == manager and item.get("operation") == "Apply"
    ]
    fields: dict[str, Any] = {}
    for item in (*applied, *ours):
        fields = union(fields, item.get("fieldsV1") or {})
    rest = [dict(item) for item in entries if item not in ours and item not in applied]
    newest = max((item.get("time", "") for item in (*applied, *ours)), default="")
    entry = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return [*rest, entry | ({"time": newest} if newest else {})]


def _is_creation(entry: Mapping[str, Any]) -> bool:
    return (
        entry.get("manager") == CREATOR
        and entry.get("operation") == "Update"
        and not entry.get("subresource")
    )
