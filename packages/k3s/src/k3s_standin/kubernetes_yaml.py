"""YAML as Go's yaml.v2 reads it for k3s, and for Kubernetes through sigs.k8s.io/yaml, a converter to JSON.

PyYAML reads ``2026-01-31`` as a date, which JSON doesn't have, ``22:22`` as a number in base 60, and ``1e3``
and ``y`` as texts. yaml.v2 reads the first two as texts, ``1e3`` as a number and ``y`` as true.
"""

import base64
import math
import re
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import yaml

_TAG = "tag:yaml.org,2002:"
_TRUE = ("y", "yes", "true", "on")
_FALSE = ("n", "no", "false", "off")
_BOOLEANS = {
    form: word in _TRUE for word in (*_TRUE, *_FALSE) for form in (word, word.capitalize(), word.upper())
}
_NULLS = ("", "~", "null", "Null", "NULL")
_INTEGER = re.compile(
    r"[-+]?(0[bB]_*[01][01_]*|0[oO]_*[0-7][0-7_]*|0[xX]_*[0-9a-fA-F][0-9a-fA-F_]*|0[0-7_]*|[1-9][0-9_]*)\Z"
)
_FLOAT = re.compile(r"[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9][0-9_]*)?\Z")
_NOT_FINITE = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")
_OCTAL = re.compile(r"\A([-+]?)0(?=[0-7])")


def load_documents(text: str) -> list[Any]:
    """The documents in a text, with JSON's types; an empty one is None.

    ValueError names the place of invalid YAML or of a type that JSON lacks. RecursionError: too deep nesting.
    """
    try:
        return list(yaml.load_all(text, Loader=Loader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def load_texts(text: str) -> Any:
    """The document in a text as yaml.v2 reads it for text fields: numbers and dates as written.

    Errors are those of :func:`load_documents`.
    """
    try:
        return yaml.load(text, Loader=_TextLoader)  # noqa: S506 -- a safe loader, with fewer types
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


class Loader(yaml.SafeLoader):
    """Loads null, booleans, numbers and base64; ignores other tags, as yaml.v2 does."""

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}  # pyrefly: ignore[bad-override]
    yaml_constructors: ClassVar[dict[Any, Any]] = {}

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 -- PyYAML's own signature
    ) -> dict[Hashable, Any]:
        """As PyYAML's, but refuses an empty key."""
        mapping = super().construct_mapping(node, deep=deep)
        if None in mapping:
            raise yaml.constructor.ConstructorError(None, None, "a key is empty", node.start_mark)
        return mapping


class _TextLoader(Loader):
    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}


def _by_kind(loader: Loader, node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_yaml_map(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_yaml_seq(node)
    return loader.construct_scalar(node)


def _scalar(name: str, read: Callable[[str], Any]) -> None:
    """Register a function for scalars with a tag; it raises ValueError with the reason."""

    def construct(loader: Loader, node: Any) -> Any:
        text = loader.construct_scalar(node)
        try:
            return read(text)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None

    Loader.add_constructor(f"{_TAG}{name}", construct)


def _boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise ValueError(f"{text!r} is neither true nor false")
    return _BOOLEANS[text]


def _null(text: str) -> None:
    if text not in _NULLS:
        raise ValueError(f"{text!r} is not null")


def _integer(text: str) -> int:
    if not _INTEGER.match(text):
        raise ValueError(f"{text!r} is not an integer")
    return int(_OCTAL.sub(r"\g<1>0o", text.replace("_", "")), 0)


def _float(text: str) -> float:
    number = float(text.replace("_", "")) if _FLOAT.match(text) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"{text!r} isn't a JSON number")
    return number


def _decoded(text: str) -> str:
    return base64.b64decode("".join(text.split()), validate=True).decode(errors="replace")


def _words(words: Any) -> re.Pattern[str]:
    return re.compile(f"({'|'.join(words)})\\Z")


_RESOLVED = (
    ("null", _words(_NULLS)),
    ("bool", _words(_BOOLEANS)),
    ("int", _INTEGER),
    ("float", _FLOAT),
    ("float", _NOT_FINITE),
    ("merge", _words(["<<"])),
)
"""The types of unquoted values. The first pattern that matches determines the type."""

for _name, _pattern in _RESOLVED:
    Loader.add_implicit_resolver(f"{_TAG}{_name}", _pattern, None)
    if _name not in {"int", "float"}:
        _TextLoader.add_implicit_resolver(f"{_TAG}{_name}", _pattern, None)
_scalar("null", _null)
_scalar("bool", _boolean)
_scalar("int", _integer)
_scalar("float", _float)
_scalar("binary", _decoded)
Loader.yaml_constructors[None] = _by_kind
