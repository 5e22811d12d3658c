"""Files of an image in memory, unaffected by rights, times or letter cases of a file system."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A file's content, whether it is executable, and whether it is setuid root."""

    content: bytes
    executable: bool = False
    as_root: bool = False


@dataclass(frozen=True)
class Link:
    """A symbolic link and its target."""

    target: str


@dataclass(frozen=True)
class Folder:
    """A folder that may be empty. The folders above a file are implied."""

    mode: int = 0o755


Entry = File | Link | Folder
Tree = Mapping[str, Entry]
"""Entries by path. A path is relative to the root, and has no slash at its beginning or end."""


def below(prefix: str, tree: Tree) -> dict[str, Entry]:
    """The same entries in a folder of another tree."""
    return {f"{prefix}/{path}": entry for path, entry in tree.items()}


def parents(path: str) -> list[str]:
    """The folders above a path, outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
