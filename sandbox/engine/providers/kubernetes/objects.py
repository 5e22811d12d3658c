"""Kubernetes objects as Pulumi's properties: defaults, identity, drift. Pure."""

from __future__ import annotations

import base64
import copy
import hashlib
from collections.abc import Mapping
from typing import Any

from sandbox.engine.values import (
    UNKNOWN,
    Properties,
    has_secret,
    has_unknown,
    is_secret,
    plain,
    secret,
)

_KEYED = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
}
"""Lists of a Pod's spec in which several managers have items of their own, with the key of their items
(``x-kubernetes-list-map-keys`` in Kubernetes' OpenAPI document). Applying leaves others' items there."""
AUTONAMED = "pulumi.com/autonamed"
_AUTONAME_DIGITS = 8


def with_name(name: str, olds: Mapping[str, Any], news: Properties, seed: bytes) -> Properties:
    """Inputs with an automatic name where the program gives none; it stays the same from run to run."""
    metadata = news.get("metadata") or {}
    if metadata == UNKNOWN or is_secret(metadata) or metadata.get("name") or metadata.get("generateName"):
        return news
    before = plain(olds).get("metadata") or {}
    automatic = (before.get("annotations") or {}).get(AUTONAMED) == "true" and before.get("name")
    annotations = {**(metadata.get("annotations") or {}), AUTONAMED: "true"}
    chosen = automatic or f"{name}-{hashlib.sha256(seed).hexdigest()[:_AUTONAME_DIGITS]}"
    return {**news, "metadata": {**metadata, "annotations": annotations, "name": chosen}}


def is_autonamed(inputs: Mapping[str, Any]) -> bool:
    """Tell whether the name of an object is an automatic one."""
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
    """An object as outputs; the data of a Secret is secret, and so is what the inputs have as secret."""
    shown = dict(found)
    if shown.get("kind") == "Secret" and "data" in shown:
        shown["data"] = secret(shown["data"])
    for key, value in inputs.items():
        if key in shown and key != "metadata" and has_secret(value) and not is_secret(shown[key]):
            shown[key] = secret(shown[key])
    return {"__fieldManager": manager, "__initialApiVersion": version, "__inputs": inputs, **shown}


def drifted(inputs: Any, live: Any, field: str = "") -> Any:
    """The inputs with the values that they now have in the live object.

    What the program does not set is not looked at, also where others have added it to a list whose items
    have keys; a value that is gone is left out.

    Args:
        inputs: What the program sets.
        live: What there is.
        field: The name of the field that has both.
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


def live_inputs(inputs: Properties, live: Mapping[str, Any]) -> Properties:
    """Inputs after a refresh."""
    seen = drifted(inputs, dict(live))
    return {**seen, "apiVersion": inputs["apiVersion"], "kind": inputs["kind"]}


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {}, False, 0)


def changed_paths(old: Properties, new: Properties) -> list[str]:
    """Paths that differ, as deep as mappings go."""

    def walk(before: Any, after: Any, prefix: str) -> list[str]:
        if isinstance(before, dict) and isinstance(after, dict):
            found = []
            for key in sorted(before.keys() | after.keys()):
                path = (
                    f'{prefix}["{key}"]' if "." in key or "/" in key else f"{prefix}.{key}" if prefix else key
                )
                found.extend(walk(before.get(key), after.get(key), path))
            return found
        return [] if before == after else [prefix]

    return walk(plain(old), plain(new), "")


def replaced_paths(old: Properties, new: Properties, candidates: tuple[str, ...]) -> list[str]:
    """Those of the candidates, such as ``metadata.name``, at which two plain objects differ."""
    return [path for path in candidates if _at(old, path) != _at(new, path)]


def _at(found: Any, path: str) -> Any:
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found
