"""The file backend: stacks in a folder, laid out as the genuine Pulumi does it.

.pulumi/meta.yaml
.pulumi/stacks/<project>/<stack>.json       the checkpoint; .json.bak is the one before the last run
.pulumi/locks/organization/<project>/<stack>/<id>.json
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.engine.errors import LockedError, StateError


@dataclass(frozen=True)
class Lock:
    """What a run leaves beside a stack's state as long as it works on it.

    Attributes:
        path: The file.
        pid: Its process.
        username: Who started it.
        hostname: The machine that it runs on.
        timestamp: Since when, as RFC 3339 has it.
    """

    path: Path
    pid: int
    username: str
    hostname: str
    timestamp: str

    @property
    def holder(self) -> str:
        """Who holds it, for a person."""
        return f"process {self.pid} of {self.username}@{self.hostname} since {self.timestamp}"

    @property
    def runs_here(self) -> bool:
        """Tell whether the process runs on this machine."""
        return self.hostname == socket.gethostname() and _is_alive(self.pid)

    @property
    def has_ended(self) -> bool:
        """Tell whether the process is known to have ended; of another machine's nothing is known."""
        return self.hostname == socket.gethostname() and not _is_alive(self.pid)


@dataclass(frozen=True)
class Backend:
    """Checkpoints of one project's stacks below a folder."""

    folder: Path
    project: str

    @property
    def _stacks(self) -> Path:
        return self.folder / ".pulumi" / "stacks" / self.project

    def checkpoint(self, stack: str) -> Path:
        """The file that holds a stack's state."""
        return self._stacks / f"{stack}.json"

    def stacks(self) -> list[str]:
        """Names of all stacks, sorted."""
        return sorted(path.stem for path in self._stacks.glob("*.json")) if self._stacks.is_dir() else []

    def load(self, stack: str) -> dict[str, Any] | None:
        """A stack's deployment, empty for a new stack; None where there is no such stack.

        Raises:
            StateError: The file is damaged or of an unknown version.
        """
        path = self.checkpoint(stack)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise StateError(
                f"{path}: can't be read: {error}; {path}.bak is the state before the last run"
            ) from error
        if not isinstance(data, dict):
            raise StateError(f"{path}: this is no state of a stack")
        if data.get("version") != 3:
            raise StateError(f"{path}: state of version {data.get('version')} is unknown (wanted: 3)")
        checkpoint = data.get("checkpoint")
        if not isinstance(checkpoint, dict):
            raise StateError(f"{path}: the state has no 'checkpoint'")
        return checked(checkpoint.get("latest") or {}, str(path))

    def save(self, stack: str, deployment: Mapping[str, Any] | None) -> None:
        """Write a stack's deployment atomically.

        Raises:
            StateError: It can't be written (full disk, permissions).
        """
        path = self.checkpoint(stack)
        checkpoint: dict[str, Any] = {"stack": f"organization/{self.project}/{stack}"}
        if deployment is not None:
            checkpoint["latest"] = deployment
        temporary = path.with_name(path.name + ".tmp")
        try:
            self._prepare(path.parent)
            with temporary.open("w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o600)
                json.dump({"version": 3, "checkpoint": checkpoint}, file, indent=4)
            temporary.replace(path)
        except OSError as error:
            raise StateError(f"{path}: the state can't be written: {error.strerror}") from error

    def keep_backup(self, stack: str) -> None:
        """Copy the checkpoint beside itself, before a run changes it.

        Raises:
            StateError: It can't be written (full disk, permissions); an older copy stays.
        """
        path = self.checkpoint(stack)
        backup = path.with_name(path.name + ".bak")
        temporary = path.with_name(path.name + ".bak.tmp")
        try:
            with contextlib.suppress(FileNotFoundError):
                content = path.read_bytes()
                temporary.write_bytes(content)
                temporary.chmod(0o600)
                temporary.replace(backup)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StateError(f"{backup}: the state can't be copied: {error.strerror}") from error

    def remove(self, stack: str) -> None:
        """Delete a stack's files; the configuration is not touched."""
        for suffix in ("", ".bak", ".attrs"):
            path = self.checkpoint(stack)
            path.with_name(path.name + suffix).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, stack: str) -> Iterator[None]:
        """Hold the stack's lock; a lock of a dead process of this machine is taken over.

        Raises:
            LockedError: Another run holds it.
        """
        folder = self._locks(stack)
        own = folder / f"{uuid.uuid4()}.json"
        try:
            self._prepare(folder)
            own.write_text(json.dumps(_holder()), encoding="utf-8")
        except OSError as error:
            raise StateError(f"{own}: the stack can't be locked: {error.strerror}") from error
        try:
            for lock in self.locks(stack):
                if lock.path != own:
                    self._take_away(stack, lock)
            yield
        finally:
            own.unlink(missing_ok=True)

    def locks(self, stack: str) -> list[Lock]:
        """The locks on a stack, whoever holds them."""
        return [lock for path in sorted(self._locks(stack).glob("*.json")) if (lock := _read_lock(path))]

    def cancel(self, stack: str) -> int:
        """Remove the locks on a stack; how many there were.

        The genuine CLI removes every one. This removes none of a process that still runs on this machine.

        Raises:
            LockedError: There is such a one.
        """
        locks = self.locks(stack)
        for lock in locks:
            if lock.runs_here:
                raise LockedError(stack, lock.holder, lock.path)
        for lock in locks:
            lock.path.unlink(missing_ok=True)
        return len(locks)

    def _locks(self, stack: str) -> Path:
        return self.folder / ".pulumi" / "locks" / "organization" / self.project / stack

    @staticmethod
    def _take_away(stack: str, lock: Lock) -> None:
        if not lock.has_ended:
            raise LockedError(stack, lock.holder, lock.path)
        lock.path.unlink(missing_ok=True)

    def _prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        meta = self.folder / ".pulumi" / "meta.yaml"
        if not meta.exists():
            meta.write_text("version: 1\n", encoding="utf-8")


def checked(deployment: Any, place: str) -> dict[str, Any]:
    """A deployment of which every part is of the kind that Pulumi writes.

    Args:
        deployment: As read.
        place: Where it stands, for errors.

    Raises:
        StateError: It is none.
    """
    if not isinstance(deployment, dict):
        raise StateError(f"{place}: the deployment is no mapping")
    for key in ("manifest", "secrets_providers"):
        if not isinstance(deployment.get(key) or {}, dict):
            raise StateError(f"{place}: '{key}' is no mapping")
    if not isinstance((deployment.get("secrets_providers") or {}).get("state") or {}, dict):
        raise StateError(f"{place}: the state of 'secrets_providers' is no mapping")
    for key in ("resources", "pending_operations"):
        if not isinstance(deployment.get(key) or [], list):
            raise StateError(f"{place}: '{key}' is no list")
    for resource in deployment.get("resources") or ():
        _check_resource(resource, place)
    for pending in deployment.get("pending_operations") or ():
        if not isinstance(pending, dict) or not isinstance(pending.get("type"), str):
            raise StateError(f"{place}: a pending operation has no type")
        _check_resource(pending.get("resource"), place)
    return deployment


def _check_resource(resource: Any, place: str) -> None:
    if not isinstance(resource, dict) or not isinstance(resource.get("urn"), str):
        raise StateError(f"{place}: a resource has no 'urn'")
    urn = resource["urn"]
    if urn.count("::") < 3:
        raise StateError(f"{place}: '{urn}' is no urn of a resource")
    if not isinstance(resource.get("type"), str):
        raise StateError(f"{place}: the resource '{urn}' has no 'type'")
    for part in ("inputs", "outputs"):
        if not isinstance(resource.get(part) or {}, dict):
            raise StateError(f"{place}: '{part}' of the resource '{urn}' are no mapping")


def _holder() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "username": getpass.getuser(),
        "hostname": socket.gethostname(),
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _read_lock(path: Path) -> Lock | None:
    """A lock; None where it was just released, or is just being written by a run that will see ours."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Lock(
            path, int(data["pid"]), str(data["username"]), str(data["hostname"]), str(data["timestamp"])
        )
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
