"""Files that the program writes into the clone for its user: private, and ignored by git.

No other resource depends on them. In another clone, where a file is missing, a preview shows only that it is
written.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from .dynamic import Provider, ProviderResource

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder ``ccm_pulumi``. Some files in this folder are symbolic links to files in other folders."""
ROOT = PACKAGE.parent
"""The root folder of the clone, which contains Pulumi.yaml."""


def key_file(stack: str) -> str:
    """Name of the file with the private SSH key of a stack, so that those of several don't collide."""
    return f".dev-env.{stack}.ssh"


def kubeconfig_file(stack: str) -> str:
    """Name of the file with the kubeconfig of a stack."""
    return f"kubeconfig.{stack}.yaml"


def write_private(path: Path, text: str) -> None:
    """Writes a file atomically with mode 0600: other users can never read it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_own(path: Path, text: str) -> None:
    """Removes a file if its content is exactly ``text``; else another stack or person wrote it."""
    if path.is_file() and path.read_text() == text:
        path.unlink()


class PrivateFileProvider(Provider):
    """Keeps a file as it should be."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Writes it, and removes what an earlier version wrote under its one name for all stacks."""
        write_private(ROOT / props["file"], props["content"])
        remove_own(ROOT / props["formerly"], props["content"])
        return CreateResult(props["file"], dict(props))

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """A missing or changed file is an update."""
        result = super().diff(_id, _olds, _news)
        path = ROOT / _news["file"]
        if not path.is_file() or path.read_text() != _olds.get("content"):
            result.changes = True
        return result

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Writes it again."""
        write_private(ROOT / _news["file"], _news["content"])
        return UpdateResult(dict(_news))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Removes it, if it still is the one that we wrote."""
        remove_own(ROOT / _props["file"], _props["content"])


class PrivateFile(ProviderResource, provider=PrivateFileProvider):
    """A secret in a file of the clone, mode 0600; ``formerly`` is its name before each stack had its own."""
