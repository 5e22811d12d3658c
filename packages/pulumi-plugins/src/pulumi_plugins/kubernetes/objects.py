"""Kubernetes objects as Pulumi's properties: defaults, identity, drift, ownership of fields. Pure."""

import base64
import copy
import hashlib
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pulumi_plugins.values import (
    UNKNOWN,
    Properties,
    has_secret,
    has_unknown,
    is_secret,
    plain,
    secret,
)

_KEYED: Mapping[str, str] = {
    **dict.fromkeys(("containers", "initContainers", "env", "volumes", "imagePullSecrets"), "name"),
    "volumeMounts": "mountPath",
}
"""Lists in a Pod's spec whose items can belong to different field managers, and the key that identifies an
item (``x-kubernetes-list-map-keys`` in Kubernetes' OpenAPI document). A server-side apply keeps the items of
other managers."""
CREATOR = "pulumi-kubernetes"
"""The field manager in requests that create objects."""
AUTONAMED = "pulumi.com/autonamed"
_AUTONAME_DIGITS = 8


def with_name(name: str, olds: Mapping[str, Any], news: Properties, seed: bytes) -> Properties:
    """Inputs with an automatic name if the program gives none; it stays the same from run to run."""
    metadata = news.get("metadata") or {}
    if metadata == UNKNOWN or is_secret(metadata) or metadata.get("name") or metadata.get("generateName"):
        return news
    before = plain(olds).get("metadata") or {}
    automatic = (before.get("annotations") or {}).get(AUTONAMED) == "true" and before.get("name")
    annotations = {**(metadata.get("annotations") or {}), AUTONAMED: "true"}
    chosen = automatic or f"{name}-{hashlib.sha256(seed).hexdigest()[:_AUTONAME_DIGITS]}"
    return {**news, "metadata": {**metadata, "annotations": annotations, "name": chosen}}


def is_autonamed(inputs: Mapping[str, Any]) -> bool:
    """Whether an object's name is an automatic one."""
    metadata = plain(inputs).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and annotations.get(AUTONAMED) == "true"


def with_namespace(news: Properties, namespace: str) -> Properties:
    """Inputs of a namespaced object with a namespace."""
    metadata = news.get("metadata") or {}
    if metadata == UNKNOWN or is_secret(metadata) or metadata.get("namespace"):
        return news
    return {**news, "metadata": {**metadata, "namespace": namespace}}


def with_secret_data(news: Properties) -> Properties:
    """A Secret's inputs with stringData encoded into data, and all of it marked as secret."""
    if news.get("kind") != "Secret":
        return news
    result = dict(news)
    texts = result.pop("stringData", None)
    data = result.get("data")
    if texts is None:
        return result
    if has_unknown(texts) or has_unknown(data):
        return news
    encoded = {key: base64.b64encode(str(text).encode()).decode() for key, text in plain(texts).items()}
    merged = {**(plain(data) or {}), **encoded}
    result["data"] = secret(merged) if has_secret(texts) or has_secret(data) else merged
    return result


def identity(found: Mapping[str, Any]) -> str:
    """An object's id: ``namespace/name``, or ``name``."""
    metadata = found["metadata"]
    return "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)


def outputs(found: Mapping[str, Any], inputs: Properties, manager: str, version: str) -> Properties:
    """An object as outputs; a Secret's data is secret, and so are fields that are secret in the inputs."""
    shown = dict(found)
    if shown.get("kind") == "Secret" and "data" in shown:
        shown["data"] = secret(shown["data"])
    for key, value in inputs.items():
        if key in shown and key != "metadata" and has_secret(value) and not is_secret(shown[key]):
            shown[key] = secret(shown[key])
    return {"__fieldManager": manager, "__initialApiVersion": version, "__inputs": inputs, **shown}


def drifted(inputs: Any, live: Any, field: str = "") -> Any:
    """The inputs with the values that they now have in the live object.

    Fields that the program doesn't set are ignored, and so are items that others add to lists in ``_KEYED``.
    A value that is gone is left out.
    """
    if is_secret(inputs):
        return secret(drifted(inputs["value"], live, field))
    if isinstance(inputs, dict) and isinstance(live, dict):
        return {
            key: drifted(value, live.get(key), key)
            for key, value in inputs.items()
            if key in live or _is_empty(value)
        }
    if isinstance(inputs, list) and isinstance(live, list):
        return _drifted_list(inputs, live, _KEYED.get(field))
    if _is_empty(inputs) and _is_empty(live):
        return inputs
    return inputs if str(inputs) == str(live) else live


def _drifted_list(inputs: list[Any], live: list[Any], key: str | None) -> list[Any]:
    if key and all(isinstance(item, dict) and isinstance(item.get(key), str) for item in (*inputs, *live)):
        there = {item[key]: item for item in live}
        return [drifted(item, there[item[key]]) for item in inputs if item[key] in there]
    if len(inputs) != len(live):
        return copy.deepcopy(live)
    return [drifted(old, new) for old, new in zip(inputs, live, strict=True)]


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {}, False, 0)


def changed_paths(before: Any, after: Any, prefix: str = "") -> list[str]:
    """Paths at which two plain trees differ, as deep as mappings go."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return [] if before == after else [prefix]
    found = []
    for key in sorted(before.keys() | after.keys()):
        path = f'{prefix}["{key}"]' if "." in key or "/" in key else f"{prefix}.{key}" if prefix else key
        found += changed_paths(before.get(key), after.get(key), path)
    return found


def replaced_paths(old: Properties, new: Properties, candidates: tuple[str, ...]) -> list[str]:
    """The candidates, such as ``metadata.name``, at which two plain objects differ."""

    def at(found: Any, path: str) -> Any:
        return reduce(
            lambda part, key: part.get(key) if isinstance(part, dict) else None, path.split("."), found
        )

    return [path for path in candidates if at(old, path) != at(new, path)]


def union(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The union of two sets of fields (in the notation of ``fieldsV1``)."""
    merged = dict(first)
    for key, value in second.items():
        merged[key] = union(merged[key], value) if key in merged else value
    return merged


def taken_over(
    entries: Sequence[Mapping[str, Any]], manager: str, version: str
) -> list[dict[str, Any]] | None:
    """Managed fields with those of our POST moved to the applying manager, as client-go's csaupgrade does it.

    None if nothing moves.
    """
    by = [(item.get("manager"), item.get("operation"), item.get("subresource")) for item in entries]
    if (CREATOR, "Update", None) not in by:
        return None
    ours = {(CREATOR, "Update", None), (manager, "Apply", None)}
    moved = [item for item, who in zip(entries, by, strict=True) if who in ours]
    entry = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": version,
        "fieldsType": "FieldsV1",
        "fieldsV1": reduce(union, (item.get("fieldsV1") or {} for item in moved)),
    }
    newest = max((item.get("time", "") for item in moved), default="")
    rest = [dict(item) for item in entries if item not in moved]
    return [*rest, entry | ({"time": newest} if newest else {})]
