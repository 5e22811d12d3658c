"""/etc/rancher/k3s/config.yaml and config.yaml.d: the part of YAML that such files use.

One flag a line, ``name: value``; lists in lines with dashes or in brackets; ``name+:`` adds to a list of a
file before. Whatever else YAML has is an error that names the line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from sandbox.kubernetes.k3s.errors import UsageError
from sandbox.kubernetes.k3s.flags import Value

CONFIG_FILE = Path("/etc/rancher/k3s/config.yaml")

_KEY = re.compile(r"^([A-Za-z0-9-]+)(\+?):(?:\s+(.*))?$")
_ITEM = re.compile(r"^\s*-\s+(.*)$")


def load(path: Path) -> dict[str, Value]:
    """Read a configuration file and the ``*.yaml`` in the folder ``<path>.d``, in the order of their names.

    Raises:
        UsageError: a file is not understood; the text names file and line.
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
    """Read one file's text.

    Raises:
        UsageError: a line is not understood; the text names it.
    """
    result: dict[str, Value] = {}
    key = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = _without_comment(raw)
        if not line.strip() or line.strip() == "---":
            continue
        if key and (item := _ITEM.match(line)):
            items = result.setdefault(key, [])
            assert isinstance(items, list)
            items.append(str(_scalar(item[1].strip(), number)))
            continue
        found = _KEY.match(line)
        if not found:
            raise UsageError(f"line {number}: not `name: value` and not `- value`: {raw.strip()!r}")
        name, rest = found[1] + found[2], (found[3] or "").strip()
        if name in result:
            raise UsageError(f"line {number}: {name} is there twice")
        key = "" if rest else name
        result[name] = _value(rest, number) if rest else []
    return result


def _without_comment(line: str) -> str:
    """The line up to a # that starts a comment, which one inside quotes does not."""
    quote = ""
    for index, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#" and (index == 0 or line[index - 1].isspace()):
            return line[:index].rstrip()
    return line.rstrip()


def _value(text: str, number: int) -> Value:
    if text.startswith("["):
        if not text.endswith("]"):
            raise UsageError(f"line {number}: a list in brackets must end on its line")
        inner = text[1:-1].strip()
        return [str(_scalar(part.strip(), number)) for part in inner.split(",")] if inner else []
    return _scalar(text, number)


def _scalar(text: str, number: int) -> str | bool:
    if text[:1] in {"{", "&", "*", "|", ">", "!"}:
        raise UsageError(
            f"line {number}: only texts, numbers, true, false and lists are understood: {text!r}"
        )
    if text[:1] in {'"', "'"}:
        if len(text) < 2 or text[-1] != text[0]:
            raise UsageError(f"line {number}: the closing quote is missing: {text!r}")
        return text[1:-1]
    return text == "true" if text in {"true", "false"} else text
