"""Manifests in YAML."""

from __future__ import annotations

import json
from typing import Any

import yaml

from sandbox.engine.errors import ProviderError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def decode(text: str) -> list[Any]:
    """All objects of a text; lists are taken apart.

    Raises:
        ProviderError: The text is not YAML.
    """
    try:
        documents = list(yaml.load_all(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        raise ProviderError(f"the manifest is not YAML: {error}") from error
    result: list[Any] = []
    for document in documents:
        if not document:
            continue
        if str(document.get("kind", "")).endswith("List") and "items" in document:
            result.extend(document["items"])
        else:
            result.append(document)
    # dates and other types of YAML become texts, as in JSON
    return json.loads(json.dumps(result, default=str))
