"""Configuration: the stack file, checked against the project's typed schema."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import GenericAlias
from typing import Any

import msgspec
import yaml

from sandbox.engine.errors import ConfigError, ProjectError, UnsupportedError
from sandbox.engine.projects.project import Project, load_yaml
from sandbox.engine.properties.values import parts, transform
from sandbox.engine.state.secrets import Crypter

_TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
_STACK_KEYS = {"config", "encryptionsalt", "secretsprovider"}


@dataclass(frozen=True)
class Configuration:
    """All configuration of a run: full keys (``project:key``) to texts, structured values as JSON."""

    values: Mapping[str, str]
    secret_keys: tuple[str, ...]


class StackFile:
    """Pulumi.<stack>.yaml, read and written whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        data = load_yaml(path) if path.exists() else {}
        unknown = sorted(set(data) - _STACK_KEYS)
        if unknown:
            raise UnsupportedError(f"the key '{unknown[0]}' of {path.name}")
        if data.get("secretsprovider") not in (None, "passphrase"):
            raise UnsupportedError(f"the secrets provider '{data['secretsprovider']}' of {path.name}")
        config = data.get("config") or {}
        if not isinstance(config, dict):
            raise ProjectError(path, "config: must be a mapping")
        odd = next((name for name in config if not isinstance(name, str)), None)
        if odd is not None:
            raise ProjectError(path, f"config: the key {odd!r} must be a text (put it in quotes)")
        self._heading = heading(path)
        self.salt: str | None = data.get("encryptionsalt")
        self.config: dict[str, Any] = config

    def save(self) -> None:
        """Write the file atomically; of its comments, those at the beginning are kept."""
        data: dict[str, Any] = {"encryptionsalt": self.salt} if self.salt else {}
        if self.config:
            data["config"] = self.config
        text = self._heading + (
            yaml.safe_dump(data, sort_keys=True, default_flow_style=False, width=4096) if data else ""
        )
        temporary = self.path.with_name(self.path.name + ".tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.path)


def heading(path: Path) -> str:
    """The comments at the beginning of a file."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return "".join(itertools.takewhile(lambda line: line.startswith("#") or not line.strip(), lines))


def full_key(project: str, key: str) -> str:
    """The key with its namespace; without one it is the project's."""
    return key if ":" in key else f"{project}:{key}"


def to_text(value: Any) -> str:
    """A configuration value as the text that programs get."""
    if value is None:  # as the CLI takes a key without a value
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | date):  # YAML knows dates, JSON does not
        return str(value)
    return json.dumps(value, separators=(",", ":"), default=str)


def is_sealed(value: Any) -> bool:
    """Tell whether this is an encrypted value of a stack file."""
    return isinstance(value, dict) and list(value) == ["secure"]


def is_structured(value: Any) -> bool:
    """Tell whether this is a list or a mapping of a stack file; a text with JSON in it is neither."""
    return isinstance(value, list | dict) and not is_sealed(value)


def has_sealed(values: Mapping[str, Any]) -> bool:
    """Tell whether any value is, or contains, an encrypted one."""
    return any(is_sealed(part) for part in parts(dict(values)))


def open_value(value: Any, crypter: Crypter) -> tuple[str, bool]:
    """A value of the stack file as text, and whether it is secret."""
    sealed = any(is_sealed(part) for part in parts(value))
    opened = transform(value, lambda part: crypter.decrypt(part["secure"]) if is_sealed(part) else part)
    return to_text(opened), sealed


def defaults(project: Project) -> dict[str, Any]:
    """What the project's schema gives a stack that says nothing else, by whole keys.

    Raises:
        ConfigError: The schema has an unknown type.
        UnsupportedError: It has what the embedded engine can't do.
    """
    values = {full_key(project.name, key): _default(key, schema)[0] for key, schema in project.config.items()}
    return {name: value for name, value in values.items() if value is not None}


def resolve(project: Project, stack: StackFile, crypter: Crypter | None) -> Configuration:
    """Merge defaults of the schema with the stack file and check the types.

    Args:
        project: With the schema.
        stack: The stack's own values.
        crypter: Opens encrypted values; may be None where there are none.

    Raises:
        ConfigError: A value is missing or has the wrong type.
    """
    values: dict[str, str] = {}
    secrets: set[str] = set()
    for key, schema in project.config.items():
        name = full_key(project.name, key)
        default, is_secret = _default(key, schema)
        if is_secret:
            secrets.add(name)
        if default is not None:
            values[name] = to_text(default)
    for key, value in stack.config.items():
        name = full_key(project.name, key)
        if crypter is None and any(is_sealed(part) for part in parts(value)):
            raise ConfigError(name, "is encrypted, but the stack file has no 'encryptionsalt'")
        values[name], is_sealed_here = open_value(value, crypter) if crypter else (to_text(value), False)
        if is_sealed_here:
            secrets.add(name)
        elif name in secrets:
            raise ConfigError(name, f"must be encrypted as it's secret: 'pulumi config set --secret {name}'")
    plain = {full_key(project.name, key) for key, value in stack.config.items() if not is_structured(value)}
    for key, schema in project.config.items():
        name = full_key(project.name, key)
        _check(name, schema, values, plain, stack.path, hidden=name in secrets)
    return Configuration(values, tuple(sorted(secrets & values.keys())))


def _is_typed(schema: Any) -> bool:
    return isinstance(schema, dict) and bool({"type", "default", "value", "secret"} & schema.keys())


def _default(key: str, schema: Any) -> tuple[Any, bool]:
    if not _is_typed(schema):
        return schema, False
    unknown = sorted(set(schema) - {"type", "default", "value", "secret", "description", "items"})
    if unknown:
        raise UnsupportedError(f"'{unknown[0]}' in the schema of the configuration value '{key}'")
    if schema.get("type") not in (None, *_TYPES):
        raise ConfigError(key, f"has the unknown type '{schema['type']}' (allowed: {', '.join(_TYPES)})")
    return schema.get("value", schema.get("default")), bool(schema.get("secret"))


def _check(
    name: str,
    schema: Any,
    values: Mapping[str, str],
    plain: Collection[str],
    path: Path,
    *,
    hidden: bool,
) -> None:
    if not _is_typed(schema):
        return
    wanted = schema.get("type")
    if name not in values:
        if wanted and "default" not in schema:
            key = name.split(":", 1)[1]
            raise ConfigError(
                name, f"is required: add it to {path.name} or run 'pulumi config set {key} VALUE'"
            )
        return
    misshapen = wanted in ("array", "object") and name in plain  # the CLI takes no JSON in a text for them
    if wanted and (misshapen or not _matches(wanted, schema, values[name])):
        given = "" if hidden else f", not '{values[name]}'"
        raise ConfigError(name, f"must be of type {wanted}{given}")


def _matches(wanted: str, schema: Mapping[str, Any], text: str) -> bool:
    if wanted == "string":
        return True
    try:
        msgspec.json.decode(text, type=_type_of(schema))
    except msgspec.DecodeError:
        return False
    return True


def _type_of(schema: Mapping[str, Any]) -> Any:
    """Of the values that a schema allows; items without a type may be anything."""
    wanted = schema.get("type")
    if wanted == "array":
        return GenericAlias(list, _type_of(schema.get("items") or {}))
    return Any if wanted is None else _TYPES.get(wanted, str)
