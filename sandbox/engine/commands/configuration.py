"""``pulumi config …``."""

from __future__ import annotations

import argparse
import json
import math
import re
import string
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.engine import BANNER
from sandbox.engine.errors import ConfigError, StackNotFoundError, UsageError
from sandbox.engine.projects.config import (
    StackFile,
    defaults,
    full_key,
    has_sealed,
    is_sealed,
    is_structured,
    open_value,
)
from sandbox.engine.projects.workspace import Workspace, open_workspace
from sandbox.engine.properties import paths
from sandbox.engine.properties.values import parts

_SECRET_KEY = re.compile("passwd|pass|password|pwd|secret|token", re.IGNORECASE)
_LOOKED_AT = 16  # characters of a value, from its beginning
_BITS = 40.0
_BITS_A_CHARACTER = 3.0
_ALPHABETS = (string.ascii_lowercase, string.ascii_uppercase, string.digits, string.punctuation)


def run(arguments: argparse.Namespace, folder: Path, environment: Mapping[str, str]) -> int:
    """Run a config command; the exit status."""
    workspace = open_workspace(folder, environment)
    print(BANNER, file=sys.stderr)
    stack = workspace.stack_name(arguments.stack)
    if stack not in workspace.backend.stacks():
        raise StackNotFoundError(stack)
    file = workspace.stack_file(stack)
    actions = {None: _list, "set": _set, "get": _get, "rm": _remove}
    actions[arguments.action](arguments, workspace, file)
    return 0


def _stored_key(workspace: Workspace, file: StackFile, key: str) -> tuple[str, str]:
    """The key in the file and the whole key that was asked for."""
    name = full_key(workspace.project.name, key)
    short = name.removeprefix(f"{workspace.project.name}:")
    return (short if short in file.config else name), name


def _open(workspace: Workspace, file: StackFile, value: Any) -> str:
    if not any(is_sealed(part) for part in parts(value)):
        return open_value(value, None)[0]  # type: ignore[arg-type]  nothing to decrypt
    return open_value(value, workspace.crypter(file.salt))[0]


def _list(arguments: argparse.Namespace, workspace: Workspace, file: StackFile) -> None:
    said = {full_key(workspace.project.name, key): value for key, value in file.config.items()}
    shown = {}
    for name, value in sorted({**defaults(workspace.project), **said}.items()):
        secret = any(is_sealed(part) for part in parts(value))
        text = _open(workspace, file, value) if not secret or arguments.show_secrets else None
        shown[name] = _described(value, text, secret=secret)
    if arguments.json:
        print(json.dumps(shown, indent=2))
        return
    print(f"{'KEY':32}VALUE")
    for name, item in shown.items():
        print(f"{name.removeprefix(workspace.project.name + ':'):32}{item.get('value', '[secret]')}")


def _described(value: Any, text: str | None, *, secret: bool) -> dict[str, Any]:
    """A value as the CLI's JSON has it; without a text it is not to be shown."""
    described: dict[str, Any] = {} if text is None else {"value": text}
    if text is not None and is_structured(value):
        described["objectValue"] = json.loads(text)
    return {**described, "secret": secret}


def _get(arguments: argparse.Namespace, workspace: Workspace, file: StackFile) -> None:
    path = paths.parse(arguments.key) if arguments.path else (arguments.key,)
    stored, name = _stored_key(workspace, file, str(path[0]))
    there = defaults(workspace.project)
    if stored in file.config:
        there[name] = file.config[stored]
    value = paths.get(there, (name, *path[1:]))
    if value is None and (path[1:] or name not in there):
        raise ConfigError(name if not arguments.path else arguments.key, "is not set in this stack")
    text = _open(workspace, file, value)
    if arguments.json:
        secret = any(is_sealed(part) for part in parts(value))
        print(json.dumps(_described(value, text, secret=secret), indent=2))
    else:
        print(text)


def _set(arguments: argparse.Namespace, workspace: Workspace, file: StackFile) -> None:
    text = arguments.value if arguments.value is not None else _typed_in(arguments)
    path = paths.parse(arguments.key) if arguments.path else (arguments.key,)
    if str(path[0]).count(":") > 1:
        raise UsageError(f"'{path[0]}' is not a configuration key (wanted: key or namespace:key)")
    stored, _ = _stored_key(workspace, file, str(path[0]))
    value: Any = _scalar(text) if arguments.path else text
    if arguments.secret:
        crypter = workspace.crypter(file.salt if has_sealed(file.config) else None)
        file.salt = crypter.salt
        value = {"secure": crypter.encrypt(text)}
    # as with the CLI, a plain value gives way to a list or a mapping; further down it does not
    there = file.config.get(stored)
    if not arguments.secret and not arguments.plaintext:
        above = (paths.get(there, path[1:end]) for end in range(1, len(path)))
        if any(is_sealed(part) for part in (*above, *parts(paths.get(there, path[1:])))):
            raise _refused(arguments.key, "is encrypted")
        if looks_secret(arguments.key, text):
            raise _refused(arguments.key, "looks like a secret")
    there = there if is_structured(there) else None
    file.config[stored] = _placed(there, path[1:], value)
    file.save()


def _refused(key: str, reason: str) -> UsageError:
    return UsageError(
        f"config value for '{key}' {reason}; rerun with --secret to encrypt it, or --plaintext if you meant "
        "to store in plaintext"
    )


def looks_secret(key: str, value: str) -> bool:
    """Tell whether a value is probably a secret: by the name of its key, and how hard it is to guess.

    As the CLI does (``looksLikeSecret`` in its cmd/pulumi/config), which knows words, too: of a value made of
    words, such as ``a-long-name``, this says yes where the CLI may say no.
    """
    if not _SECRET_KEY.search(key.rpartition(":")[2]):
        return False
    start = value[:_LOOKED_AT]
    variety = sum(len(alphabet) for alphabet in _ALPHABETS if set(alphabet) & set(start))
    each = math.log2(max(variety, 1))
    return each >= _BITS_A_CHARACTER and each * len(start) >= _BITS


def _typed_in(arguments: argparse.Namespace) -> str:
    if arguments.non_interactive and sys.stdin.isatty():
        raise UsageError(f"config value for '{arguments.key}' must be given in non-interactive mode")
    if sys.stdin.isatty():
        from getpass import getpass  # noqa: PLC0415

        return getpass("value: ") if arguments.secret else input("value: ")
    return sys.stdin.read().removesuffix("\n")


def _scalar(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) and str(int(text)) == text else text


def _placed(tree: Any, path: tuple[paths.Segment, ...], value: Any) -> Any:
    """A copy of a tree with a value at a path; missing mappings and lists are made."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if tree is not None and not isinstance(tree, list if isinstance(key, int) else dict):
        wanted = "an array" if isinstance(key, int) else "a map"
        raise UsageError(f"'{key}' can't be set: expected {wanted} there")
    if isinstance(key, int):
        items = list(tree or [])
        if key > len(items):
            raise UsageError(f"index {key} is beyond the end of the list (it has {len(items)} items)")
        items[key : key + 1] = [_placed(items[key] if key < len(items) else None, rest, value)]
        return items
    mapping = dict(tree or {})
    mapping[key] = _placed(mapping.get(key), rest, value)
    return mapping


def _remove(arguments: argparse.Namespace, workspace: Workspace, file: StackFile) -> None:
    path = paths.parse(arguments.key) if arguments.path else (arguments.key,)
    stored, _ = _stored_key(workspace, file, str(path[0]))
    if stored not in file.config:
        return  # nothing to do is no error of the CLI, either
    if len(path) == 1:
        del file.config[stored]
    else:
        file.config[stored] = _without(file.config[stored], path[1:])
    file.save()


def _without(tree: Any, path: tuple[paths.Segment, ...]) -> Any:
    """A copy of a tree without what is at a path, if it is there; what comes after an item moves up."""
    key, rest = path[0], path[1:]
    there = (isinstance(tree, dict) and key in tree) or (
        isinstance(tree, list) and isinstance(key, int) and 0 <= key < len(tree)
    )
    if not there:
        return tree
    copy = tree.copy()
    if rest:
        copy[key] = _without(tree[key], rest)
    else:
        del copy[key]
    return copy
