"""The two kinds of patches that we send, applied as by the API server. Pure; arguments stay unchanged.

The strategic merge patch merges only the lists that matter to a cloud-controller-manager. All other lists are
replaced, as Kubernetes does with lists without a merge key (taints, podCIDRs, ingress). The directive
``$patch`` isn't supported, because we don't send it.
"""

from collections.abc import Mapping
from typing import Any, cast

from ccm.kube.errors import Invalid

Json = Any
Object = dict[str, Any]

_MERGE_KEYS = {"conditions": "type", "addresses": "type", "ports": "port", "ownerReferences": "uid"}
_MERGED_SETS = {"finalizers"}
_DELETE_FROM = "$deleteFromPrimitiveList/"
_IGNORED = "$setElementOrder/"


def merge(original: Json, patch: Json) -> Json:
    """JSON merge patch (RFC 7386): null removes, objects merge, everything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = _object(original)
    for name, value in cast("Mapping[str, Json]", patch).items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def strategic_merge(original: Json, patch: Json) -> Any:
    """Kubernetes' strategic merge patch: like a merge patch, but some lists merge by a key."""
    if not isinstance(patch, Mapping):
        return patch
    merged = _object(original)
    for name, value in cast("Mapping[str, Json]", patch).items():
        if name.startswith(_DELETE_FROM):
            field = name.removeprefix(_DELETE_FROM)
            known = cast("list[Json]", merged.get(field) or [])
            merged[field] = [item for item in known if item not in value]
        elif name.startswith(_IGNORED):
            continue
        elif value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge_field(name, merged.get(name), value)
    return merged


def _merge_field(name: str, original: Json, value: Json) -> Json:
    if not isinstance(value, list):
        return strategic_merge(original, value)
    items = cast("list[Json]", value)
    if name in _MERGED_SETS:
        known = cast("list[Json]", original or [])
        return known + [item for item in items if item not in known]
    if name in _MERGE_KEYS:
        known = cast("list[Object]", original or [])
        return _merge_list(_MERGE_KEYS[name], known, cast("list[Object]", items))
    return items


def _merge_list(key: str, original: list[Object], patch: list[Object]) -> list[Object]:
    merged: list[Object] = list(original)
    for item in patch:
        value = item.get(key)
        if value is None:
            raise Invalid(422, "Invalid", f"map: {item} does not contain declared merge key: {key}")
        position = next((index for index, old in enumerate(merged) if old.get(key) == value), None)
        if position is None:
            merged.append(item)
        else:
            merged[position] = cast("Object", strategic_merge(merged[position], item))
    return merged


def _object(value: Json) -> Object:
    return dict(cast("Object", value)) if isinstance(value, dict) else {}
