"""What can be set on a Kubernetes provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.engine.errors import UnsupportedError
from sandbox.engine.values import UNKNOWN, Properties

_CONFIG = {
    "kubeconfig", "context", "cluster", "namespace", "clusterIdentifier", "deleteUnreachable",
    "skipUpdateUnreachable", "upsertExistingObjects", "enablePatchForce", "enableServerSideApply",
    "suppressDeprecationWarnings", "suppressHelmHookWarnings", "version",
}  # fmt: skip


def check_config(inputs: Properties, environment: Mapping[str, str]) -> None:  # noqa: ARG001
    """Refuse settings that the plugin does not have.

    Raises:
        UnsupportedError: With the key.
    """
    unknown = sorted(set(inputs) - _CONFIG)
    if unknown:
        raise UnsupportedError(f"the setting '{unknown[0]}' of the provider", "kubernetes")
    if "enableServerSideApply" in inputs and not switch(inputs, "enableServerSideApply"):
        raise UnsupportedError("enableServerSideApply=false of the provider", "kubernetes")


def switch(config: Mapping[str, Any], key: str) -> bool:
    """Tell whether a setting is on; the SDK sends switches as JSON texts."""
    value = config.get(key)
    return value in (True, "true", UNKNOWN)


def switch_or_variable(config: Mapping[str, Any], key: str, environment: Mapping[str, str]) -> bool:
    """Tell whether a setting is on, by itself or, where it is not set, by its environment variable."""
    variable = "PULUMI_K8S_" + "".join(f"_{sign}" if sign.isupper() else sign.upper() for sign in key)
    return switch(config, key) if key in config else environment.get(variable) == "true"
