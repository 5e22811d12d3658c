"""One resource as a deployment's state has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sandbox.engine.errors import StateError
from sandbox.engine.properties.values import Properties

PROVIDER_PREFIX = "pulumi:providers:"
STACK_TYPE = "pulumi:pulumi:Stack"
DYNAMIC_PROVIDER = "pulumi:providers:pulumi-python"


class Resource(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """A resource of a stack: what Pulumi calls its state. Attributes are as in Pulumi's JSON, in its order.

    Attributes that neither this engine nor its providers use are kept in ``extra``, so that nothing of a
    state that a genuine engine wrote is lost.
    """

    urn: str
    custom: bool
    delete: bool = False
    id: str = ""
    type: str
    inputs: Properties = {}
    outputs: Properties = {}
    parent: str = ""
    protect: bool = False
    external: bool = False
    dependencies: list[str] = []
    init_errors: list[str] = []
    provider: str = ""
    property_dependencies: dict[str, list[str]] = {}
    pending_replacement: bool = False
    additional_secret_outputs: list[str] = []
    custom_timeouts: dict[str, float] = {}
    import_id: str = msgspec.field(default="", name="importID")
    retain_on_delete: bool = False
    deleted_with: str = ""
    created: str = ""
    modified: str = ""
    source_position: str = ""
    ignore_changes: list[str] = []
    replace_on_changes: list[str] = []
    extra: Properties = {}

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
    """Read a resource of a deployment; secrets stay as they are.

    Raises:
        StateError: It is not what Pulumi writes.
    """
    keys = {*Resource.__struct_encode_fields__} - {"extra"}
    known = {key: value for key, value in data.items() if key in keys and value is not None}
    # Go writes zero and null where there is nothing
    timeouts = {key: value for key, value in known.get("customTimeouts", {}).items() if value}
    needed = {key: urns or [] for key, urns in known.get("propertyDependencies", {}).items()}
    extra = {key: value for key, value in data.items() if key not in keys}
    fixed = {"customTimeouts": timeouts, "propertyDependencies": needed, "extra": extra}
    try:
        return msgspec.convert({"custom": False, **known, **fixed}, Resource)
    except msgspec.ValidationError as error:
        raise StateError(f"the state's resource '{data.get('urn')}' can't be understood: {error}") from error


def to_json(resource: Resource) -> dict[str, Any]:
    """The resource as a deployment has it; what is empty is left out."""
    data = msgspec.to_builtins(resource)
    return data | data.pop("extra", {})
