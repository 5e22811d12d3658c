"""After a run that was killed or failed: the state says of resources what the cloud says.

Pulumi keeps a note of a creation that it did not see the end of, but creates the resource again, which the
cloud refuses where names are unique. 'pulumi refresh --import-pending-creates' of 3.274 only removes it.
And where a replacement fails before its first deletion, Pulumi takes all that was to be deleted for deleted.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandbox.engine.errors import EngineError, ProviderError
from sandbox.engine.providers.base import type_of
from sandbox.engine.values import SIGNATURE, Properties

Find = Callable[[str, Properties], str | None]
"""The id of what a creation left: URN and plain inputs in; None where there is nothing."""

Ask = Callable[[Sequence[str], str], str]
"""Runs ``pulumi`` with arguments and a standard input, and returns what it prints."""


def resume(ask: Ask, stack: str, environment: Mapping[str, str]) -> list[str]:
    """Complete a stack's state after a killed run.

    Args:
        ask: Runs ``pulumi``.
        stack: Name of the stack.
        environment: Names the sandbox's API, and the cluster's kubeconfig.

    Returns:
        Names of the resources that were found.

    Raises:
        EngineError: What is there can't be told, or is not ours.
    """
    from sandbox.engine.providers.base import Surroundings  # noqa: PLC0415  only after a run was killed
    from sandbox.engine.providers.hcloud.provider import HcloudProvider  # noqa: PLC0415
    from sandbox.engine.providers.kubernetes.provider import KubernetesProvider  # noqa: PLC0415

    around = Surroundings(environment)
    finders = {"hcloud": HcloudProvider({}, around).find, "kubernetes": KubernetesProvider({}, around).find}
    exported = json.loads(ask(["stack", "export", "--stack", stack], ""))
    deployment, found = adopt(
        exported["deployment"], lambda urn, inputs: finders[type_of(urn).partition(":")[0]](urn, inputs)
    )
    ask(["stack", "import", "--stack", stack], json.dumps({**exported, "deployment": deployment}))
    return [urn.split("::")[-1] for urn in found]


def adopt(deployment: dict[str, Any], find: Find) -> tuple[dict[str, Any], list[str]]:
    """A deployment without notes of operations that were interrupted, or begun and not done.

    Args:
        deployment: As ``pulumi stack export`` prints it. Not changed.
        find: Looks for what was created.

    Returns:
        The deployment, and the URNs of resources that it has more than before.

    Raises:
        ProviderError: What is there can't be told, or is not ours.
    """
    result = copy.deepcopy(deployment)
    resources = result.setdefault("resources", [])
    found = []
    for item in resources:
        if item.get("pendingReplacement") and _is_ours(item) and _look(item, find) == item["id"]:
            del item["pendingReplacement"]
    for operation in result.pop("pending_operations", None) or []:
        resource = operation["resource"]
        if operation["type"] != "creating" or not _is_ours(resource):
            continue
        identity = _look(resource, find)
        if identity is None or any(item.get("id") == identity for item in _same(resources, resource)):
            continue  # nothing was made, or only its predecessor is there
        _insert(resources, {**resource, "id": identity, "outputs": resource.get("inputs", {})})
        found.append(resource["urn"])
    return result, found


def _is_ours(resource: dict[str, Any]) -> bool:
    return type_of(resource["urn"]).startswith(("hcloud:", "kubernetes:"))


def _look(resource: dict[str, Any], find: Find) -> str | None:
    readable = {key: value for key, value in resource.get("inputs", {}).items() if not _is_sealed(value)}
    try:
        return find(resource["urn"], readable)
    except EngineError as error:
        name = resource["urn"].split("::")[-1]
        raise ProviderError(f"an earlier run did not finish with '{name}': {error}") from error


def _same(resources: list[dict[str, Any]], resource: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in resources if item["urn"] == resource["urn"]]


def _insert(resources: list[dict[str, Any]], resource: dict[str, Any]) -> None:
    """After what it depends on. What it was to replace goes, or is to be deleted."""
    for number, item in enumerate(resources):
        if item["urn"] == resource["urn"]:
            if item.get("pendingReplacement"):
                resources[number] = resource
                return
            item["delete"] = True
    resources.append(resource)


def _is_sealed(value: Any) -> bool:
    return isinstance(value, dict) and SIGNATURE in value
