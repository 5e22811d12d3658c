"""A stack's state during a run: what is done, still old, or going on; written after every step."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.engine.errors import UnclearError, UnsupportedError
from sandbox.engine.properties.clock import timestamp
from sandbox.engine.state import graph
from sandbox.engine.state.resource import Resource, from_json, to_json
from sandbox.engine.state.secrets import Crypter

_SECRET_PARTS = ("inputs", "outputs")

# How a bridged plugin gets from a resource's outputs to the Terraform state that it keeps to itself. It
# depends on the values and holds for these outputs alone: with a wrong one the genuine plugin panics, with
# none it takes the outputs as they are (tried with the hcloud plugin 1.39.1, both ways, without a change).
# So this engine writes none and keeps none, not even where it changes nothing: whether one still fits it
# can't tell.
_RAW_STATE_DELTA = "__pulumi_raw_state_delta"


@dataclass(frozen=True)
class Pending:
    """What was going on: ``creating``, ``updating``, ``deleting``, ``reading`` or ``importing``."""

    kind: str
    resource: Resource


def salt_of(deployment: Mapping[str, Any]) -> str | None:
    """The salt line with which a deployment's secrets are encrypted."""
    return ((deployment.get("secrets_providers") or {}).get("state") or {}).get("salt")


def _open(data: Mapping[str, Any], crypter: Crypter) -> Resource:
    if data.get("resourceHooks"):
        raise UnsupportedError(f"resource hooks (of '{data['urn']}')")
    opened = dict(data)
    for part in _SECRET_PARTS:
        if part in opened:
            opened[part] = crypter.open(opened[part], data["urn"] + part)
    resource = from_json(opened)
    resource.outputs.pop(_RAW_STATE_DELTA, None)
    return resource


def _seal(resource: Resource, crypter: Crypter) -> dict[str, Any]:
    data = to_json(resource)
    for part in _SECRET_PARTS:
        if part in data:
            data[part] = crypter.seal(data[part], resource.urn + part)
    return data


class Snapshot:
    """Merges the resources that a run has finished with the old ones that it has not reached.

    Thread-safe.

    Args:
        deployment: What the run starts from; may be empty.
        crypter: Opens and seals its secrets.
        version: Version for the manifest.
        write: Stores a deployment durably; None for a run that changes nothing (preview).
    """

    def __init__(
        self,
        deployment: Mapping[str, Any],
        crypter: Crypter,
        version: str,
        write: Callable[[Mapping[str, Any]], None] | None,
    ) -> None:
        self._crypter = crypter
        self._version = version
        self._write = write
        self.olds = [_open(data, crypter) for data in deployment.get("resources") or []]
        self.interrupted = [
            Pending(data["type"], _open(data["resource"], crypter))
            for data in deployment.get("pending_operations") or []
        ]
        self.news: dict[str, Resource] = {}
        self._gone: set[int] = set()
        self._running: list[Pending] = []
        self._unclear: list[Pending] = []
        self._lock = threading.RLock()
        self._write_lock = threading.Lock()
        self._changes = 0
        self._written = 0

    def complete(
        self, new: Resource, old: Resource | None, *, keep_old: bool = False, save: bool = True
    ) -> None:
        """Record that a resource has its new state.

        Args:
            new: Its state.
            old: The state that it replaces.
            keep_old: The old one still exists and is to be deleted at the end of the run.
            save: Write at once; False where nothing but the order of the file has changed.
        """
        with self._lock:
            self.news[new.urn] = new
            self.interrupted = [item for item in self.interrupted if item.resource.urn != new.urn]
            # in the same write: a resource that is done must not look interrupted
            self._running = [item for item in self._running if item.resource.urn != new.urn]
            if old is not None and keep_old:
                old.delete = True
            elif old is not None:
                self._gone.add(id(old))
            if old is not None and old.urn != new.urn:
                for other in self.olds:
                    graph.rename(other, old.urn, new.urn)
            self._changes += 1
        if save:
            self.save()

    def forget(self, old: Resource) -> None:
        """Record that an old resource is gone."""
        with self._lock:
            self._gone.add(id(old))
            self._changes += 1
        self.save()

    def lose(self, old: Resource) -> None:
        """Record that an old resource vanished; what refers to it no longer does."""
        with self._lock:
            self._gone.add(id(old))
            self.cut_dangling()
            self._changes += 1
        self.save()

    def cut_dangling(self) -> None:
        """Drop references to what is not there, or only comes later: an older one that is to be deleted."""
        with self._lock:
            known: set[str] = set()
            for resource in self.resources():
                self._changes += graph.without_dangling(resource, known)
                known.add(resource.urn)

    def await_replacement(self, old: Resource) -> None:
        """Record that an old resource is gone, and that a new one will take its place and its name."""
        with self._lock:
            old.pending_replacement = True
            self._changes += 1
        self.save()

    def touch(self) -> None:
        """Record that a resource was changed in place; the next save writes it."""
        with self._lock:
            self._changes += 1

    def resolve_interrupted(self, pending: Pending, adopted: Resource | None = None) -> None:
        """Drop a remembered interrupted operation; what it made becomes part of the old state.

        Its predecessor is then what a finished replacement leaves: gone, or still to be deleted.
        """
        with self._lock:
            self.interrupted.remove(pending)
            if adopted is not None:
                before = [old for old in self.remaining() if old.urn == adopted.urn and not old.delete]
                # in its predecessor's place, because others may need it
                place = self.olds.index(before[0]) if before else len(self.olds)
                self.olds.insert(place, adopted)
                self._gone |= {id(old) for old in before if old.pending_replacement}
                for old in before:
                    old.delete = not old.pending_replacement
            self._changes += 1
        self.save()

    @contextlib.contextmanager
    def pending(self, kind: str, resource: Resource) -> Iterator[None]:
        """Keep an operation in the written state while it runs, and afterwards where it ended unclear."""
        operation = Pending(kind, resource)
        with self._lock:
            self._running.append(operation)
            self._changes += 1
        self.save()
        try:
            yield
        except UnclearError:
            with self._lock:
                self._running.remove(operation)
                self._unclear.append(operation)
                self._changes += 1
            raise
        finally:
            with self._lock:
                if operation in self._running:
                    self._running.remove(operation)
                    self._changes += 1

    def remaining(self) -> list[Resource]:
        """Old resources that are neither done nor gone."""
        with self._lock:
            return [old for old in self.olds if self._remains(old)]

    def resources(self) -> list[Resource]:
        """The stack as it is now, dependencies before dependents."""
        with self._lock:
            return [*self.news.values(), *(old for old in self.olds if self._remains(old))]

    def deployment(self) -> dict[str, Any]:
        """The stack as Pulumi's deployment, format 3, secrets encrypted."""
        with self._lock:
            running = [*self.interrupted, *self._unclear, *self._running]
            data: dict[str, Any] = {
                "manifest": {
                    "time": timestamp(),
                    "magic": hashlib.sha256(self._version.encode()).hexdigest(),
                    "version": self._version,
                },
                "secrets_providers": {"type": "passphrase", "state": {"salt": self._crypter.salt}},
                "resources": [_seal(resource, self._crypter) for resource in self.resources()],
                "metadata": {},
            }
            if running:
                data["pending_operations"] = [
                    {"resource": _seal(item.resource, self._crypter), "type": item.kind} for item in running
                ]
            return data

    def save(self) -> None:
        """Write the state unless another thread has already written everything up to now."""
        if self._write is None:
            return
        with self._lock:
            wanted = self._changes
        with self._write_lock:
            if self._written >= wanted:
                return
            with self._lock:
                reached = self._changes
                data = self.deployment()
            self._write(data)
            self._written = reached

    def _remains(self, old: Resource) -> bool:
        return id(old) not in self._gone and (old.delete or old.urn not in self.news)
