"""From gRPC's registration requests to goals. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi.runtime.proto import alias_pb2, resource_pb2

from sandbox.engine.deployment.steps import Goal
from sandbox.engine.errors import UnsupportedError
from sandbox.engine.properties.clock import seconds
from sandbox.engine.properties.wire import from_struct
from sandbox.engine.state.graph import Alias, urn_of


def goal_of(request: resource_pb2.RegisterResourceRequest, stack: str, project: str, root: Path) -> Goal:
    """What a RegisterResource request asks for.

    Raises:
        UnsupportedError: It uses an option that the engine does not have.
    """
    _refuse(request)
    return Goal(
        urn=urn_of(stack, project, request.type, request.name, request.parent),
        type=request.type,
        name=request.name,
        custom=request.custom,
        inputs=from_struct(request.object),
        parent=request.parent,
        provider=request.provider,
        version=request.version,
        dependencies=tuple(sorted(request.dependencies)),
        property_dependencies=_dependencies(request) if request.custom else {},
        protect=request.protect,
        ignore_changes=tuple(request.ignoreChanges),
        replace_on_changes=tuple(request.replaceOnChanges),
        delete_before_replace=request.deleteBeforeReplace if request.deleteBeforeReplaceDefined else None,
        retain_on_delete=request.retainOnDelete,
        deleted_with=request.deletedWith,
        additional_secret_outputs=tuple(request.additionalSecretOutputs),
        aliases=tuple(_alias(item) for item in request.aliases)
        + tuple(Alias(urn=urn) for urn in request.aliasURNs),
        custom_timeouts=_timeouts(request.customTimeouts) if request.HasField("customTimeouts") else {},
        import_id=request.importId,
        source_position=_position(request.sourcePosition, root) if request.HasField("sourcePosition") else "",
    )


@dataclass(frozen=True)
class Heritage:
    """What children have from their parent unless they say otherwise; None where nobody said anything."""

    protect: bool | None
    retain_on_delete: bool | None
    deleted_with: str


def inherit(request: resource_pb2.RegisterResourceRequest, parent: Heritage | None) -> Heritage:
    """Fill in, in place, what the request has from its parent; what its own children will have."""
    if parent is not None:
        if not request.HasField("protect") and parent.protect is not None:
            request.protect = parent.protect
        if not request.HasField("retainOnDelete") and parent.retain_on_delete is not None:
            request.retainOnDelete = parent.retain_on_delete
        request.deletedWith = request.deletedWith or parent.deleted_with
    return Heritage(
        request.protect if request.HasField("protect") else None,
        request.retainOnDelete if request.HasField("retainOnDelete") else None,
        request.deletedWith,
    )


def _refuse(request: resource_pb2.RegisterResourceRequest) -> None:
    for given, option in (
        (request.pluginDownloadURL, "plugin_download_url"),
        (request.packageRef, "parameterized packages"),
        (request.transforms, "transforms"),
        (request.state_migrations, "state_migrations"),
        (request.envVarMappings, "env_var_mappings"),
        (request.hideDiffs, "hide_diffs"),
        (request.hooks.ListFields(), "hooks"),
        (request.replace_with, "replace_with"),
        (request.HasField("replacement_trigger"), "replacement_trigger"),
    ):
        if given:
            raise UnsupportedError(f"the resource option '{option}' (of '{request.name}')")
    if request.remote:
        raise UnsupportedError(f"the remote component '{request.type}'")


def _dependencies(request: resource_pb2.RegisterResourceRequest) -> dict[str, list[str]]:
    # The SDK keeps these in sets, whose order differs from run to run: that must not change the state.
    return {key: sorted(item.urns) for key, item in sorted(request.propertyDependencies.items())}


def _alias(message: alias_pb2.Alias) -> Alias:
    if message.urn:
        return Alias(urn=message.urn)
    spec = message.spec
    return Alias(
        name=spec.name,
        type=spec.type,
        stack=spec.stack,
        project=spec.project,
        parent=spec.parentUrn,
        no_parent=spec.noParent,
    )


def _timeouts(message: resource_pb2.RegisterResourceRequest.CustomTimeouts) -> dict[str, float]:
    texts = {"create": message.create, "update": message.update, "delete": message.delete}
    return {operation: seconds(text) for operation, text in texts.items() if text}


def _position(message: Any, root: Path) -> str:
    """A source position as states have it: relative to the project's folder."""
    uri = message.uri
    path = os.path.relpath(uri[7:], root) if uri.startswith("file://") else uri
    return f"project:///{path}#{message.line}"
