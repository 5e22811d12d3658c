"""The manifests of the cloud-controller-manager, fitted to this cluster."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ..lib.files import supplied

FOLDER = supplied("manifests")

Manifest = dict[str, Any]


def read_manifests(folder: Path = FOLDER) -> list[Manifest]:
    """All objects in the folder's YAML files, without its subfolders, in the order of the files' names."""
    return [
        item
        for path in sorted(folder.glob("*.yaml"))
        for item in yaml.safe_load_all(path.read_text())
        if item
    ]


def identity(manifest: Manifest) -> str:
    """A name for the object that no other one has: kind and name, such as ``role-ccm-from-scratch``."""
    return f"{manifest['kind'].lower()}-{manifest['metadata']['name'].replace(':', '-')}"


def fitted(deployment: Manifest, arguments: Sequence[str], environment: Mapping[str, str]) -> Manifest:
    """The Deployment with other flags and more environment variables.

    Args:
        deployment: As in the manifest; it stays as it is.
        arguments: Flags like ``--name=value``; each replaces the one of that name, or is added.
        environment: Replaces variables of these names, or is added.
    """
    result = copy.deepcopy(deployment)
    container = result["spec"]["template"]["spec"]["containers"][0]
    container["args"] = merged_arguments(container.get("args", []), arguments)
    kept = [variable for variable in container.get("env", []) if variable["name"] not in environment]
    container["env"] = kept + [{"name": name, "value": value} for name, value in environment.items()]
    return result


def merged_arguments(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Flags by name: the new one takes the old one's place."""
    flags = {argument.partition("=")[0]: argument for argument in old}
    flags.update({argument.partition("=")[0]: argument for argument in new})
    return list(flags.values())
