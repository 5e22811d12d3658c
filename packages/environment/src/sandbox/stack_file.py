"""A stack's settings file, ``Pulumi.<stack>.yaml``, as Pulumi reads it."""

import base64
import hashlib
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sandbox.errors import SandboxError

_TYPES = {"integer": int, "boolean": bool, "array": list, "object": dict}
_ROUNDS = 1_000_000  # of Pulumi's passphrase secrets provider
_CHECK = b"pulumi"  # what a salt line carries encrypted, to recognize a wrong passphrase
_SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"


class _Loader(_SAFE_LOADER):  # type: ignore[misc,valid-type]  which of the two it is depends on the machine
    """Reads dates and ``22:00`` as texts, as the CLI's yaml.v2 does; PyYAML reads ``22:00`` in base 60."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)
        if tag == f"{_TAG}timestamp" or (tag in (f"{_TAG}int", f"{_TAG}float") and ":" in value):
            return f"{_TAG}str"
        return tag


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping; an empty file is an empty mapping."""
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506  a safe loader
    except OSError as error:
        raise SandboxError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # no UTF-8, no such date, endless nesting
        raise SandboxError(f"{path}: is not YAML: {error}") from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise SandboxError(f"{path}: must be a mapping")
    return data


def load_config(path: Path) -> dict[str, Any]:
    """The settings in a file, by their keys as they are written there."""
    config = load_yaml(path).get("config") or {}
    if not isinstance(config, dict):
        raise SandboxError(f"{path}: config: must be a mapping")
    unquoted = next((name for name in config if not isinstance(name, str)), None)
    if unquoted is not None:
        raise SandboxError(
            f"{path}: config: the key {unquoted!r} must have a string as its value (put the value in quotes)"
        )
    return config


def heading(path: Path) -> str:
    """The comments at the beginning of a file."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return "".join(itertools.takewhile(lambda line: line.startswith("#") or not line.strip(), lines))


def full_key(project: str, key: str) -> str:
    """The key with its namespace; without one it is the project's."""
    return key if ":" in key else f"{project}:{key}"


def has_sealed(value: Any) -> bool:
    """Whether a value is, or contains, an encrypted one."""
    if isinstance(value, dict):
        return list(value) == ["secure"] or any(map(has_sealed, value.values()))
    return isinstance(value, list) and any(map(has_sealed, value))


def misfit(schema: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    """What is wrong with the first setting of another type than the project says, or None.

    The CLI refuses it, too, but only in the end.
    """
    for key, typed in schema.items():
        wanted, value = typed.get("type"), config.get(key)
        if key in config and wanted in _TYPES and not has_sealed(value) and not _fits(wanted, value):
            return f"configuration value '{key}' must be of type {wanted}, not '{_text(value)}'"
    return None


def _fits(wanted: str, value: Any) -> bool:
    """'pulumi config set' writes numbers and switches as texts, but not lists and mappings."""
    if isinstance(value, str) and wanted in ("integer", "boolean"):
        try:
            value = json.loads(value)
        except ValueError:
            return False
    return type(value) is _TYPES[wanted]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def opens(phrase: str, salt: Any) -> bool:
    """Whether a passphrase fits a salt line of Pulumi's passphrase secrets provider.

    A line is ``v1:SALT:v1:NONCE:TEXT``, all in Base64; a damaged one fits none.
    """
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  slow, and few need it
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    try:
        _, raw, _, nonce, sealed = str(salt).split(":")
        key = hashlib.pbkdf2_hmac("sha256", phrase.encode(), base64.b64decode(raw), _ROUNDS, 32)
        return AESGCM(key).decrypt(base64.b64decode(nonce), base64.b64decode(sealed), None) == _CHECK
    except (ValueError, InvalidTag):
        return False
