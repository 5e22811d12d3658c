"""What Pulumi has written of a project's stacks into a folder: states and locks.

The layout is that of Pulumi's file backend (``pkg/backend/diy``):

.pulumi/stacks/<project>/<stack>.json
.pulumi/locks/organization/<project>/<stack>/<id>.json
"""

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.errors import SandboxError


@dataclass(frozen=True)
class Lock:
    """What a run leaves beside a stack's state as long as it works on it."""

    path: Path
    holder: str  # its process, for a person
    runs: bool | None  # whether that process runs; None of another machine's, of which nothing is known


@dataclass(frozen=True)
class States:
    """The stacks of one project."""

    folder: Path  # what PULUMI_BACKEND_URL names
    project: str  # name of the project

    def stacks(self) -> list[str]:
        """Names of all stacks, sorted."""
        return sorted(path.stem for path in self._stacks.glob("*.json"))

    def locks(self, stack: str) -> list[Lock]:
        """The locks on a stack, of any holder."""
        folder = self.folder / ".pulumi" / "locks" / "organization" / self.project / stack
        return [lock for path in sorted(folder.glob("*.json")) if (lock := _read_lock(path))]

    def resources(self, stack: str) -> int:
        """How many resources a stack has, without the stack itself and its providers."""
        found = self._deployment(stack).get("resources") or []
        return sum(not str(item.get("type")).startswith("pulumi:") for item in found)

    def was_interrupted(self, stack: str) -> bool:
        """Whether a run was killed in the middle of an operation."""
        return bool(self._deployment(stack).get("pending_operations"))

    def repair(self) -> None:
        """Remove ``.attrs`` files that a killed run left half-written: with one, every command fails ("EOF").

        Pulumi renames states and locks into place, but writes their ``.attrs`` where they are (``setAttrs``
        of gocloud.dev/blob/fileblob). A state or lock without such a file can be read.
        """
        for path in (self.folder / ".pulumi").rglob("*.attrs"):
            try:
                json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue
            except ValueError:
                path.unlink(missing_ok=True)

    @property
    def _stacks(self) -> Path:
        return self.folder / ".pulumi" / "stacks" / self.project

    def _deployment(self, stack: str) -> dict[str, Any]:
        path = self._stacks / f"{stack}.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))["checkpoint"].get("latest") or {}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise SandboxError(f"{path} can't be read: {error}. {path}.bak has an earlier state") from error
        if not isinstance(found, dict):
            raise SandboxError(f"{path}: the field 'latest' isn't a mapping. {path}.bak has an earlier state")
        return found


def of_all_projects(folder: Path) -> list[States]:
    """The stacks of each project in a folder, sorted by project."""
    return [States(folder, path.name) for path in sorted((folder / ".pulumi/stacks").glob("*"))]


def _read_lock(path: Path) -> Lock | None:
    """A lock; None where it was just released, or is just being written."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        pid, host = int(data["pid"]), data["hostname"]
        holder = f"process {pid} of {data['username']}@{host} since {data['timestamp']}"
        return Lock(path, holder, _is_alive(pid) if host == socket.gethostname() else None)
    except (FileNotFoundError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, IndexError):
        return True
