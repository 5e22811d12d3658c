"""The remote components ConfigFile and ConfigGroup of kubernetes:yaml/v2, built inside the engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sandbox.engine.changes import Registered
from sandbox.engine.errors import EngineError, ProviderError, UnsupportedError
from sandbox.engine.graph import urn_of
from sandbox.engine.providers.base import Provider
from sandbox.engine.steps import Goal
from sandbox.engine.values import REFERENCE, SIGNATURE, Properties, has_unknown, is_secret, plain, secret

TYPES = ("kubernetes:yaml/v2:ConfigFile", "kubernetes:yaml/v2:ConfigGroup")
_FIRST = ("CustomResourceDefinition", "Namespace")
_SECRET_PARTS = ("data", "stringData", "spec")
_KEYS = {"file", "files", "yaml", "objs", "resourcePrefix", "skipAwait"}


def construct(
    goal: Goal, reference: str, provider: Provider, register: Callable[[Goal], Registered], root: Path
) -> Properties:
    """Register the component and a child for every Kubernetes object in it.

    Args:
        goal: The component as the program wants it.
        reference: The Kubernetes provider's reference.
        provider: That provider.
        register: Registers one resource.
        root: Folder to which file names are relative.

    Returns:
        The component's outputs: references to the children.

    Raises:
        EngineError: A manifest can't be read or an object can't be made.
    """
    unknown = sorted(set(goal.inputs) - _KEYS)
    if unknown:
        raise UnsupportedError(f"the input '{unknown[0]}' of {goal.type}")
    component = Goal(**{**vars(goal), "remote": False, "provider": ""})
    register(component)
    documents = [] if has_unknown(goal.inputs) else read_objects(goal.inputs, provider, root)
    prefix = plain(goal.inputs).get("resourcePrefix") or goal.name
    goals = [child_goal(goal, reference, document, prefix) for document in documents]
    if plain(goal.inputs).get("skipAwait"):
        goals = [_without_await(child) for child in goals]
    made = _register_all(order(goals), register)
    references = [
        {SIGNATURE: REFERENCE, "urn": item.urn, "id": item.id, "name": child.name, "type": child.type}
        for child, item in zip(order(goals), made, strict=True)
    ]
    return {"resources": references}


def read_objects(inputs: Properties, provider: Provider, root: Path) -> list[Properties]:
    """All Kubernetes objects of a component's inputs; lists are taken apart, secret objects stay secret."""
    values = plain(inputs)
    names = [values["file"]] if values.get("file") else list(values.get("files") or [])
    texts = [values["yaml"]] if values.get("yaml") else []
    for name in names:
        texts.extend(_read_files(root, name))
    objects = [
        item for text in texts for item in provider.invoke("kubernetes:yaml:decode", {"text": text})["result"]
    ]
    given = inputs.get("objs") or []
    marked = is_secret(given) or is_secret(inputs.get("yaml"))
    for item in plain(given) if marked else given:
        listed = isinstance(item, dict) and str(item.get("kind", "")).endswith("List") and "items" in item
        objects.extend(item["items"] if listed else [item])
    return [_with_secrets(item) for item in objects] if marked else objects


def _with_secrets(item: Properties) -> Properties:
    return {key: secret(value) if key in _SECRET_PARTS else value for key, value in item.items()}


def _read_files(root: Path, name: str) -> list[str]:
    paths = sorted(root.glob(name)) if any(mark in name for mark in "*?[") else [root / name]
    if not paths:
        raise ProviderError(f"no file matches '{name}'")
    try:
        return [path.read_text(encoding="utf-8") for path in paths]
    except OSError as error:
        raise ProviderError(f"{error.filename}: {error.strerror}") from error


def child_goal(component: Goal, reference: str, document: Any, prefix: str) -> Goal:
    """The goal of one object.

    Raises:
        ProviderError: It is no Kubernetes object.
    """
    metadata = plain(document.get("metadata")) if isinstance(document, dict) else None
    if not metadata or not metadata.get("name") or not document.get("apiVersion") or not document.get("kind"):
        shown = json.dumps(plain(document))[:80]
        raise ProviderError(f"not a Kubernetes object with apiVersion, kind and metadata.name: {shown}")
    version = document["apiVersion"]
    kind = f"kubernetes:{version if '/' in version else 'core/' + version}:{document['kind']}"
    path = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    name = f"{prefix}:{path}"
    stack, project = component.urn.split("::")[:2]
    return Goal(
        urn=urn_of(stack.removeprefix("urn:pulumi:"), project, kind, name, component.urn),
        type=kind,
        name=name,
        custom=True,
        inputs=document,
        parent=component.urn,
        provider=reference,
        dependencies=component.dependencies,
        property_dependencies={key: [] for key in sorted(document)},
        protect=component.protect,
        ignore_changes=component.ignore_changes,
        retain_on_delete=component.retain_on_delete,
        deleted_with=component.deleted_with,
        additional_secret_outputs=("data", "stringData") if document["kind"] == "Secret" else (),
        source_position=component.source_position,
    )


def order(goals: Sequence[Goal]) -> list[Goal]:
    """Definitions and namespaces first; what needs one of the group's depends on it."""
    namespaces = {
        plain(goal.inputs)["metadata"]["name"]: goal.urn
        for goal in goals
        if goal.inputs["kind"] == "Namespace"
    }
    definitions = {}
    for goal in goals:
        if goal.inputs["kind"] == "CustomResourceDefinition":
            spec = plain(goal.inputs)["spec"]
            definitions[spec["group"], spec["names"]["kind"]] = goal.urn
    ordered = sorted(
        goals, key=lambda goal: _FIRST.index(goal.inputs["kind"]) if goal.inputs["kind"] in _FIRST else 9
    )
    result = []
    for goal in ordered:
        group = goal.inputs["apiVersion"].rpartition("/")[0]
        wanted = [
            namespaces.get(plain(goal.inputs)["metadata"].get("namespace", "")),
            definitions.get((group, goal.inputs["kind"])),
        ]
        dependencies = tuple(dict.fromkeys([*goal.dependencies, *(urn for urn in wanted if urn)]))
        result.append(Goal(**{**vars(goal), "dependencies": dependencies}))
    return result


def _without_await(goal: Goal) -> Goal:
    metadata = dict(plain(goal.inputs)["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), "pulumi.com/skipAwait": "true"}
    return Goal(**{**vars(goal), "inputs": {**goal.inputs, "metadata": metadata}})


def _register_all(goals: Sequence[Goal], register: Callable[[Goal], Registered]) -> list[Registered]:
    """Register what others depend on one by one, the rest at once; the first failure counts."""
    made: dict[str, Registered] = {}
    errors: list[EngineError] = []

    def work(goal: Goal) -> None:
        try:
            made[goal.urn] = register(goal)
        except EngineError as error:
            errors.append(error)

    for goal in goals:
        if goal.inputs["kind"] in _FIRST:
            made[goal.urn] = register(goal)
    threads = [
        threading.Thread(target=work, args=(goal,), daemon=True) for goal in goals if goal.urn not in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [made[goal.urn] for goal in goals]
