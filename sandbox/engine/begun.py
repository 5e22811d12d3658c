"""What a run that was killed was creating: Pulumi notes that, and neither deletes it nor goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def delete(deployment: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """Delete what a killed run left of creations that it had begun: the next run creates it again.

    Nothing is on such an object yet. It has the name and the labels that the note has, and no resource of the
    state is this object.

    Args:
        deployment: As ``pulumi stack export`` prints it.
        environment: Names the sandbox's API.

    Returns:
        Names of what was deleted.

    Raises:
        EngineError: It can't be deleted, or what has its name has other labels.
    """
    from sandbox.engine.providers.hcloud.api import api_from  # noqa: PLC0415  only after a kill
    from sandbox.engine.providers.hcloud.kind import NamedKind  # noqa: PLC0415
    from sandbox.engine.providers.hcloud.provider import KINDS  # noqa: PLC0415

    api, deleted = api_from({}, environment), []
    known = {item.get("id") for item in deployment.get("resources") or []}
    for operation in deployment.get("pending_operations") or []:
        resource = operation["resource"]
        kind = KINDS.get(resource["type"])
        if operation["type"] == "creating" and isinstance(kind, NamedKind):
            found = kind.find(api, resource["inputs"])
            if found is not None and str(found["id"]) not in known:
                kind.delete(api, str(found["id"]))
                deleted.append(found["name"])
    return deleted
