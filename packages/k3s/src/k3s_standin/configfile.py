"""/etc/rancher/k3s/config.yaml and config.yaml.d: one flag a key, with a text, a switch or a list.

``name+`` adds to a list of an earlier file. Other YAML is an error that names the line. Values without quotes
are what yaml.v2 makes of them, as in k3s's package configfilearg: ``yes`` is true, and ``0644`` is 420.
"""

from collections.abc import Mapping
from pathlib import Path

import yaml

from k3s_standin.errors import UsageError
from k3s_standin.flags import Value
from k3s_standin.kubernetes_yaml import Loader

CONFIG_FILE = Path("/etc/rancher/k3s/config.yaml")
_ENDINGS = (".yaml", ".yml")


def load(path: Path) -> dict[str, Value]:
    """Read a configuration file and those in the folder ``<path>.d``, in the order of their names.

    Both may be missing. The folder's files end with ``.yaml`` or ``.yml``, in capitals or not.
    """
    further = sorted(path.with_name(path.name + ".d").glob("*"))
    files = [path, *(file for file in further if file.name.lower().endswith(_ENDINGS))]
    result: dict[str, Value] = {}
    for file in files:
        if not file.is_file():
            continue
        try:
            result = merge(result, parse(file.read_text()))
        except (UsageError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: {error}") from None
    return result


def merge(first: Mapping[str, Value], second: Mapping[str, Value]) -> dict[str, Value]:
    """Settings of two files: the second's win, except that ``name+`` adds to a list."""
    result = dict(first)
    for key, value in second.items():
        if not key.endswith("+"):
            result[key] = value
        else:
            result[key[:-1]] = [*_as_list(result.get(key[:-1], [])), *_as_list(value)]
    return result


def arguments(settings: Mapping[str, Value]) -> list[str]:
    """The settings as command-line flags."""
    return [
        f"{'-' if len(name) == 1 else '--'}{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, values in settings.items()
        for value in (values if isinstance(values, list) else [values])
    ]


def _as_list(value: Value) -> list[str]:
    return value if isinstance(value, list) else [str(value)]


def parse(text: str) -> dict[str, Value]:
    """Read one file's text."""
    try:
        loader = Loader(text)
        root = loader.get_single_node()
        if root is None:
            return {}
        if not isinstance(root, yaml.MappingNode):
            raise UsageError(f"line {_line(root.start_mark)}: not `name: value`")
        result: dict[str, Value] = {}
        for key, value in root.value:
            name = _text(loader, key)
            if name in result:
                raise UsageError(f"line {_line(key.start_mark)}: {name} occurs twice")
            result[name] = _value(loader, value)
    except yaml.MarkedYAMLError as error:
        what = ": ".join(part for part in (error.context, error.problem) if part)
        raise UsageError(f"line {_line(error.problem_mark)}: {what}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"line 1: {error}") from None
    return result


def _value(loader: Loader, node: yaml.Node) -> Value:
    if isinstance(node, yaml.SequenceNode):
        return [_text(loader, item) for item in node.value]
    text = _text(loader, node)
    if node.tag.endswith(":null"):
        return []
    return text == "true" if node.tag.endswith(":bool") else text


def _text(loader: Loader, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise UsageError(
            f"line {_line(node.start_mark)}: the value must be a string, a number, true, false or a list"
        )
    value = loader.construct_object(node)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value if isinstance(value, int) else node.value)


def _line(mark: yaml.Mark | None) -> int:
    return mark.line + 1 if mark else 1
