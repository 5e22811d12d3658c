"""/etc/rancher/k3s/config.yaml and config.yaml.d: one flag a key, with a text, a switch or a list.

``name+`` adds to a list of a file before. Whatever else YAML has is an error that names the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from sandbox.kubernetes.k3s.errors import UsageError
from sandbox.kubernetes.k3s.flags import Value

CONFIG_FILE = Path("/etc/rancher/k3s/config.yaml")


def load(path: Path) -> dict[str, Value]:
    """Read a configuration file and the ``*.yaml`` in the folder ``<path>.d``, in the order of their names.

    Raises:
        UsageError: A file is not understood; the text names file and line.
    """
    files = [path, *sorted(path.with_name(path.name + ".d").glob("*.yaml"))]
    result: dict[str, Value] = {}
    for file in files:
        if not file.exists():
            continue
        try:
            result = merge(result, parse(file.read_text()))
        except UsageError as error:
            raise UsageError(f"{file}: {error}") from None
    return result


def merge(first: Mapping[str, Value], second: Mapping[str, Value]) -> dict[str, Value]:
    """Settings of two files: the second's win, except that ``name+`` adds to a list."""
    result = dict(first)
    for key, value in second.items():
        if not key.endswith("+"):
            result[key] = value
            continue
        name = key[:-1]
        before = result.get(name, [])
        result[name] = [*_as_list(before), *_as_list(value)]
    return result


def _as_list(value: Value) -> list[str]:
    return value if isinstance(value, list) else [str(value)]


def parse(text: str) -> dict[str, Value]:
    """Read one file's text. Texts stay as they are written, so that a mode may begin with 0.

    Raises:
        UsageError: It is no YAML, or more than flags with their values; the text names the line.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        what = ": ".join(part for part in (error.context, error.problem) if part)
        raise UsageError(f"line {_line(error.problem_mark)}: {what}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"line 1: {error}") from None
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(f"line {_line(root.start_mark)}: not `name: value`")
    result: dict[str, Value] = {}
    for key, value in root.value:
        name = _text(key)
        if name in result:
            raise UsageError(f"line {_line(key.start_mark)}: {name} is there twice")
        result[name] = _value(value)
    return result


def _value(node: yaml.Node) -> Value:
    if isinstance(node, yaml.SequenceNode):
        return [_text(item) for item in node.value]
    text = _text(node)
    if node.tag.endswith(":null"):
        return []
    return text == "true" if node.style is None and text in {"true", "false"} else text


def _text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise UsageError(f"line {_line(node.start_mark)}: only texts, numbers, true, false and lists")
    return str(node.value)


def _line(mark: yaml.Mark | None) -> int:
    return mark.line + 1 if mark else 1
