"""One resource as a deployment's state has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from sandbox.engine.values import Properties

PROVIDER_PREFIX = "pulumi:providers:"
STACK_TYPE = "pulumi:pulumi:Stack"
DYNAMIC_PROVIDER = "pulumi:providers:pulumi-python"

# attribute -> key in Pulumi's JSON, in the order in which Pulumi writes them
_NAMES = {
    "urn": "urn",
    "custom": "custom",
    "delete": "delete",
    "id": "id",
    "type": "type",
    "inputs": "inputs",
    "outputs": "outputs",
    "parent": "parent",
    "protect": "protect",
    "external": "external",
    "dependencies": "dependencies",
    "init_errors": "initErrors",
    "provider": "provider",
    "property_dependencies": "propertyDependencies",
    "pending_replacement": "pendingReplacement",
    "additional_secret_outputs": "additionalSecretOutputs",
    "aliases": "aliases",
    "custom_timeouts": "customTimeouts",
    "import_id": "importID",
    "retain_on_delete": "retainOnDelete",
    "deleted_with": "deletedWith",
    "created": "created",
    "modified": "modified",
    "source_position": "sourcePosition",
    "stack_trace": "stackTrace",
    "ignore_changes": "ignoreChanges",
    "replace_on_changes": "replaceOnChanges",
    "replacement_trigger": "replacementTrigger",
    "resource_hooks": "resourceHooks",
}
_ALWAYS = {"urn", "custom", "type"}


@dataclass(slots=True)
class Resource:
    """A resource of a stack: what Pulumi calls its state.

    Attributes that neither this engine nor its providers use are kept in `extra`, so that nothing of a state
    that a genuine engine wrote is lost.
    """

    urn: str
    type: str
    custom: bool
    id: str = ""
    inputs: Properties = field(default_factory=dict)
    outputs: Properties = field(default_factory=dict)
    parent: str = ""
    dependencies: list[str] = field(default_factory=list)
    property_dependencies: dict[str, list[str]] = field(default_factory=dict)
    provider: str = ""
    delete: bool = False
    pending_replacement: bool = False
    external: bool = False
    protect: bool = False
    retain_on_delete: bool = False
    deleted_with: str = ""
    additional_secret_outputs: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    custom_timeouts: dict[str, float] = field(default_factory=dict)
    ignore_changes: list[str] = field(default_factory=list)
    replace_on_changes: list[str] = field(default_factory=list)
    replacement_trigger: Any = None
    resource_hooks: dict[str, list[str]] = field(default_factory=dict)
    init_errors: list[str] = field(default_factory=list)
    import_id: str = ""
    created: str = ""
    modified: str = ""
    source_position: str = ""
    stack_trace: list[Any] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last part of the URN."""
        return self.urn.split("::", 3)[-1]

    @property
    def is_provider(self) -> bool:
        """Tell whether this is the configuration of a provider."""
        return self.type.startswith(PROVIDER_PREFIX)

    @property
    def package(self) -> str:
        """The provider package that manages the resource, or that this provider is."""
        return self.type.removeprefix(PROVIDER_PREFIX) if self.is_provider else self.type.split(":", 1)[0]

    @property
    def is_managed(self) -> bool:
        """Tell whether a provider creates and deletes something for it."""
        return self.custom and not self.external and not self.is_provider

    @property
    def reference(self) -> str:
        """A provider's reference as resources carry it: URN and id."""
        return f"{self.urn}::{self.id}"


def provider_urn(reference: str) -> str:
    """The provider's URN in a reference."""
    return reference.rsplit("::", 1)[0]


def from_json(data: Mapping[str, Any]) -> Resource:
    """Read a resource of a deployment; secrets stay as they are."""
    known = {attribute: data[key] for attribute, key in _NAMES.items() if key in data}
    known = {key: value for key, value in known.items() if value is not None}
    timeouts = {key: value for key, value in (known.pop("custom_timeouts", None) or {}).items() if value}
    dependencies = {
        key: list(urns or ()) for key, urns in (known.pop("property_dependencies", None) or {}).items()
    }
    extra = {key: value for key, value in data.items() if key not in _NAMES.values()}
    return Resource(
        **{"custom": False, **known},
        custom_timeouts=timeouts,
        property_dependencies=dependencies,
        extra=extra,
    )


def to_json(resource: Resource) -> dict[str, Any]:
    """The resource as a deployment has it; what is empty is left out."""
    data = {}
    for attribute, key in _NAMES.items():
        value = getattr(resource, attribute)
        if value or attribute in _ALWAYS:
            data[key] = value
    return data | resource.extra


def replaced(resource: Resource, **changes: Any) -> Resource:
    """A shallow copy with changed attributes."""
    return Resource(**{item.name: getattr(resource, item.name) for item in fields(resource)} | changes)
