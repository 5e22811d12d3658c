"""Property values: Pulumi's wire form, secrets and unknowns.

A property tree is like JSON. A secret is the dict that Pulumi uses on the wire
(``{SIGNATURE: SECRET, "value": ...}``); a value that is only known after an operation is the string UNKNOWN.
"""

from collections.abc import Iterator, Mapping
from typing import Any

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  Pulumi's type tag, nothing secret
OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

Properties = dict[str, Any]


def secret(value: Any) -> Properties:
    """Mark a value as secret; a secret stays as it is."""
    return value if is_secret(value) else {SIGNATURE: SECRET, "value": value}


def is_secret(value: Any) -> bool:
    """Whether this value itself is marked as secret."""
    return isinstance(value, dict) and value.get(SIGNATURE) == SECRET


def plain(value: Any) -> Any:
    """The same tree without its secret marks."""
    if isinstance(value, dict):
        return (
            plain(value["value"]) if is_secret(value) else {key: plain(part) for key, part in value.items()}
        )
    return [plain(part) for part in value] if isinstance(value, list) else value


def parts(value: Any) -> Iterator[Any]:
    """Every value of a tree, the tree itself first."""
    yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from parts(child)


def has_secret(value: Any) -> bool:
    """Whether the tree has a secret."""
    return any(is_secret(part) for part in parts(value))


def has_unknown(value: Any) -> bool:
    """Whether the tree has an unknown value."""
    return any(part == UNKNOWN for part in parts(value) if isinstance(part, str))


def without_internal(inputs: Mapping[str, Any]) -> Properties:
    """Inputs without the internal keys of providers and engines, at any depth."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(part) for key, part in value.items() if not key.startswith("__")}
        return [strip(part) for part in value] if isinstance(value, list) else value

    return strip(dict(inputs))
