"""Where a command works: the project, the backend, the selected stack and its secrets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from sandbox.engine.errors import StackNotFoundError, UnsupportedError, UsageError
from sandbox.engine.projects.config import StackFile, has_sealed
from sandbox.engine.projects.project import Project, find, load
from sandbox.engine.state.backend import Backend
from sandbox.engine.state.secrets import Crypter, passphrase
from sandbox.engine.state.snapshot import salt_of

_STACK_NAME = re.compile(r"^[A-Za-z0-9_.-]{1,100}$")


@dataclass(frozen=True)
class Workspace:
    """A project with its backend, and the environment that commands see."""

    project: Project
    backend: Backend
    environment: Mapping[str, str]

    # --- which stack

    def stack_name(self, given: str | None) -> str:
        """The stack that a command means.

        Raises:
            UsageError: None is given and none is selected.
        """
        name = given or self.environment.get("PULUMI_STACK") or self._selected()
        if not name:
            known = ", ".join(self.backend.stacks()) or "none yet: 'pulumi stack init NAME'"
            raise UsageError(
                f"no stack selected; pass --stack NAME or run 'pulumi stack select' (stacks: {known})"
            )
        return self.check_name(name)

    def check_name(self, name: str) -> str:
        """A stack's short name from what a person typed.

        Raises:
            UsageError: It is no name of a stack of this project.
        """
        parts = name.split("/")
        if len(parts) == 3:
            if parts[1] != self.project.name:
                raise UsageError(f"the stack '{name}' belongs to another project than '{self.project.name}'")
            parts = parts[2:]
        if len(parts) != 1 or not _STACK_NAME.match(parts[0]):
            raise UsageError(f"'{name}' is not a stack name (letters, digits, '-', '_', '.')")
        return parts[0]

    def select(self, stack: str) -> None:
        """Remember a stack as the current one."""
        path = self._settings()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"stack": f"organization/{self.project.name}/{stack}"}), encoding="utf-8")

    def is_selected(self, stack: str) -> bool:
        """Tell whether a stack is the current one."""
        return self._selected().endswith(f"/{stack}")

    def deselect(self, stack: str) -> None:
        """Forget the selection if it is this stack."""
        if self.is_selected(stack):
            self._settings().unlink(missing_ok=True)

    def remove(self, stack: str, *, keep_file: bool = False) -> None:
        """Remove a stack, whose lock the caller holds, its file and its selection.

        Args:
            stack: Its name.
            keep_file: Leave the file with its configuration.
        """
        self.backend.remove(stack)
        if not keep_file:
            self.project.stack_file(stack).unlink(missing_ok=True)
        self.deselect(stack)

    # --- what is in it

    def deployment(self, stack: str) -> dict[str, Any]:
        """A stack's state.

        Raises:
            StackNotFoundError: There is no such stack.
        """
        found = self.backend.load(stack)
        if found is None:
            raise StackNotFoundError(stack)
        return found

    def stack_file(self, stack: str) -> StackFile:
        """A stack's configuration file; it may not exist yet."""
        return StackFile(self.project.stack_file(stack))

    def crypter(self, salt: str | None) -> Crypter:
        """Encryption with the passphrase of the environment."""
        return Crypter(passphrase(self.environment), salt)

    def crypters(self, deployment: Mapping[str, Any], file: StackFile) -> tuple[Crypter, Crypter]:
        """Encryption of a stack's state and of its file; the same one unless their salts differ.

        The file's salt counts only where the file has secrets: another clone's must not get in the way.
        """
        salt = salt_of(deployment)
        needed = file.salt if file.salt and has_sealed(file.config) else None
        state = self.crypter(salt or needed)
        return state, state if needed in (None, salt) or salt is None else self.crypter(needed)

    def _home(self) -> Path:
        given = self.environment.get("PULUMI_HOME")
        return Path(given) if given else Path(self.environment.get("HOME", "/")) / ".pulumi"

    def _settings(self) -> Path:
        path = find(self.project.root)
        digest = hashlib.sha1(str(path).encode(), usedforsecurity=False).hexdigest()
        return self._home() / "workspaces" / f"{self.project.name}-{digest}-workspace.json"

    def _selected(self) -> str:
        try:
            return str(json.loads(self._settings().read_text(encoding="utf-8")).get("stack") or "")
        except (OSError, ValueError, AttributeError, RecursionError):
            return ""


def open_workspace(folder: Path, environment: Mapping[str, str]) -> Workspace:
    """The workspace of a folder.

    Raises:
        EngineError: There is no project, or it can't be used.
    """
    project = load(folder)
    home = Path(environment.get("HOME", "/"))
    return Workspace(project, open_backend(project, environment, home), environment)


def open_backend(project: Project, environment: Mapping[str, str], home: Path) -> Backend:
    """The backend of a project: PULUMI_BACKEND_URL wins over Pulumi.yaml.

    Raises:
        UsageError: Neither names one.
        UnsupportedError: It is no file backend.
    """
    url = environment.get("PULUMI_BACKEND_URL") or project.backend_url
    if not url:
        raise UsageError(
            "no backend is configured: set PULUMI_BACKEND_URL=file://FOLDER or backend.url in Pulumi.yaml"
        )
    parsed = urlparse(url)
    if parsed.scheme != "file":
        raise UnsupportedError(
            f"the backend {url}", instead="use a file:// backend or install the Pulumi CLI"
        )
    path = unquote(parsed.netloc + parsed.path)
    folder = home / path[1:].lstrip("/") if path.startswith("~") else Path(path)
    return Backend(project.root / folder, project.name)
