"""Pulumi.yaml: what a project is and where its stacks are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sandbox.engine.errors import ProjectError, UnsupportedError

SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KEYS = {
    "name", "runtime", "main", "description", "config", "backend", "options", "template", "author", "license",
    "website", "stackConfigDir",
}  # fmt: skip
_NAME = re.compile(r"^[A-Za-z0-9_.-]{1,100}$")
_TAG = "tag:yaml.org,2002:"


class _Loader(SAFE_LOADER):  # type: ignore[misc,valid-type]  which of the two it is depends on the machine
    """Leaves what is a text to the CLI, which reads by yaml.v2: dates, and ``22:00``, else of base 60."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)
        if tag == f"{_TAG}timestamp" or (tag in (f"{_TAG}int", f"{_TAG}float") and ":" in value):
            return f"{_TAG}str"
        return tag


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping; an empty file is an empty mapping.

    Raises:
        ProjectError: The file can't be read or is no mapping.
    """
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506  a safe loader
    except OSError as error:
        raise ProjectError(path, error.strerror or str(error)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # no UTF-8, no such date, endless nesting
        raise ProjectError(path, f"is not YAML: {error}") from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ProjectError(path, "must be a mapping")
    return data


@dataclass(frozen=True)
class Project:
    """A Pulumi project on disk.

    Attributes:
        name: Its name, part of every URN.
        root: The folder of Pulumi.yaml.
        program: The folder or file that is run.
        config: The typed config schema, as written.
        backend_url: ``backend.url``, or None.
        refresh_always: ``options.refresh: always``.
        stack_folder: Where the stack files are.
    """

    name: str
    root: Path
    program: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    backend_url: str | None = None
    refresh_always: bool = False
    stack_folder: Path = Path()

    def stack_file(self, stack: str) -> Path:
        """The file with the stack's configuration."""
        return self.stack_folder / f"Pulumi.{stack}.yaml"


def find(folder: Path) -> Path:
    """The Pulumi.yaml of a folder or of the nearest folder above.

    Raises:
        ProjectError: There is none.
    """
    for candidate in (folder, *folder.parents):
        for name in ("Pulumi.yaml", "Pulumi.yml"):
            if (candidate / name).is_file():
                return candidate / name
    raise ProjectError(folder, "no Pulumi.yaml found here or in any folder above")


def load(folder: Path) -> Project:
    """Read and check the project to which a folder belongs.

    Raises:
        ProjectError: There is no such folder, or Pulumi.yaml is missing or wrong.
        UnsupportedError: It asks for what the embedded engine can't do.
    """
    if not folder.is_dir():  # else the project of a folder above it would be taken
        raise ProjectError(folder, "there is no such folder")
    path = find(folder.resolve())
    data = load_yaml(path)
    unknown = sorted(set(data) - _KEYS)
    if unknown:
        raise UnsupportedError(f"the key '{unknown[0]}' of {path.name}")
    name = data.get("name")
    if not isinstance(name, str) or not _NAME.match(name):
        raise ProjectError(path, f"name: {name!r} is not a project name (letters, digits, '-', '_', '.')")
    _check_runtime(path, data.get("runtime"))
    program = (path.parent / str(data.get("main") or ".")).resolve()
    if not program.exists():
        raise ProjectError(path, f"main: {program} does not exist")
    return Project(
        name=name,
        root=path.parent,
        program=program,
        config=_mapping(path, data, "config"),
        backend_url=_mapping(path, data, "backend").get("url"),
        refresh_always=_refresh(path, _mapping(path, data, "options")),
        stack_folder=(path.parent / str(data.get("stackConfigDir") or ".")).resolve(),
    )


def _mapping(path: Path, data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key) or {}
    if not isinstance(value, dict):
        raise ProjectError(path, f"{key}: must be a mapping")
    odd = next((name for name in value if not isinstance(name, str)), None)
    if odd is not None:
        raise ProjectError(path, f"{key}: the key {odd!r} must be a text (put it in quotes)")
    return value


def _check_runtime(path: Path, runtime: Any) -> None:
    name = runtime.get("name") if isinstance(runtime, dict) else runtime
    if name != "python":
        raise ProjectError(path, f"runtime: {name!r} can't be run by the embedded engine (only: python)")


def _refresh(path: Path, options: dict[str, Any]) -> bool:
    unknown = sorted(set(options) - {"refresh"})
    if unknown:
        raise UnsupportedError(f"the option '{unknown[0]}' in {path.name}")
    refresh = options.get("refresh")
    if refresh not in (None, "always"):
        raise ProjectError(path, f"options.refresh: {refresh!r} is not allowed (only: always)")
    return refresh == "always"
