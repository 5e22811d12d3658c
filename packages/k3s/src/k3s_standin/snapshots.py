"""Snapshots of an embedded etcd: saved, listed, pruned, deleted and scheduled by this server.

Names, places, responses and retention are k3s's (pkg/etcd/snapshot.go, snapshot_handler.go and s3/s3.go); its
resources ``ETCDSnapshotFile`` are missing.
"""

import json
import os
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from k3s_standin import log, paths
from k3s_standin.certificates import write_secret
from k3s_standin.errors import K3sError
from k3s_standin.etcd import Etcd
from k3s_standin.s3 import S3, S3Error, S3Object, S3Options

PATH = "/db/snapshot"
FOLDER = paths.SERVER / "db" / "snapshots"
COMPRESSED = ".zip"
DISABLED = "etcd datastore disabled"
"""k3s's error message if a server uses SQLite instead of etcd. Other servers can't join such a server."""


@dataclass(frozen=True)
class SnapshotOptions:
    """The flags of ``k3s server`` for snapshots."""

    folder: Path = FOLDER  # their folder; only the default one is made
    name: str = "etcd-snapshot"  # prefix of scheduled ones, before node and time
    retention: int = 5  # how many are kept of each name; 0: all
    schedule: str = "0 */12 * * *"  # of cron; empty for none
    compress: bool = False  # whether they are zipped
    s3: S3Options | None = None  # second place; None: none


@dataclass(frozen=True)
class Snapshot:
    """A snapshot in a file, or in a bucket."""

    name: str  # of the file
    location: str  # its URL
    size: int  # in bytes
    created: int  # seconds since 1970


def read_snapshot(path: Path) -> Snapshot:
    """A snapshot in a file; its time is in the file's name, or else the modification time."""
    facts = path.stat()
    stamp = path.name.removesuffix(COMPRESSED).rpartition("-")[2]
    created = int(stamp) if stamp.isascii() and stamp.isdecimal() else int(facts.st_mtime)
    return Snapshot(path.name, f"file://{path}", facts.st_size, created)


def of_object(store: S3, found: S3Object) -> Snapshot:
    """An object, with the store's time."""
    name = found.key.rpartition("/")[2]
    return Snapshot(name, store.location(found.key), found.size, int(found.modified.timestamp()))


def surplus(snapshots: Iterable[Snapshot], prefix: str, retention: int) -> list[Snapshot]:
    """The oldest snapshots with a prefix that exceed the retention; 0 keeps all."""
    if retention < 1:
        return []
    ours = [one for one in snapshots if one.name.startswith(prefix)]
    return sorted(ours, key=lambda one: one.created, reverse=True)[retention:]


def describe(snapshot: Snapshot, node: str) -> dict[str, Any]:
    """A snapshot as an item of k3s's list."""
    created = datetime.fromtimestamp(snapshot.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "k3s.cattle.io/v1",
        "kind": "ETCDSnapshotFile",
        "metadata": {"name": f"{'s3' if node == 's3' else 'local'}-{snapshot.name}"},
        "spec": {"location": snapshot.location, "nodeName": node, "snapshotName": snapshot.name},
        "status": {"creationTime": created, "readyToUse": True, "size": str(snapshot.size)},
    }


@dataclass
class Snapshots:
    """The snapshots of one server."""

    etcd: Etcd  # its member
    node: str  # Its name
    options: SnapshotOptions  # the server's flags; requests may override them
    now: Callable[[], float] = time.time  # seconds since 1970
    _one: threading.Lock = field(default_factory=threading.Lock, init=False)

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Perform a request of ``k3s etcd-snapshot``."""
        names = [str(name) for name in request.get("name", [])]
        folder, store = Path(request.get("dir") or self.options.folder), self._store(request.get("s3"))
        retention = int(request.get("retention", self.options.retention))
        match request.get("operation"):
            case "save":
                compress = bool(request.get("compress", self.options.compress))
                return self.save(names[0], folder, retention, compress=compress, store=store)
            case "list":
                items = [describe(one, "s3") for one in _in(store)]
                items += [describe(one, self.node) for one in self._found(folder)]
                return {"apiVersion": "v1", "kind": "List", "items": items}
            case "prune":
                return {"deleted": [*self._prune(folder, names[0], retention), *_prune(store, names[0])]}
            case "delete":
                return {"deleted": self._delete(folder, store, names)}
        raise K3sError("invalid snapshot operation")

    def _store(self, given: Mapping[str, Any] | None) -> S3 | None:
        """The second place of snapshots: the server's flags, overridden by the request; raises S3Error."""
        if given is None and self.options.s3 is None:
            return None
        own = self.options.s3 or S3Options("", "", "")
        try:
            store = S3(replace(own, **(given or {})))
            store.check()
        except (S3Error, TypeError) as error:
            raise K3sError(f"failed to initialize S3 client: {error}") from error
        return store

    def save(
        self, name: str, folder: Path, retention: int, *, compress: bool, store: S3 | None
    ) -> dict[str, list[str]]:
        """Take one, then delete surplus ones; returns the names of ``created`` and ``deleted`` files."""
        if not self._one.acquire(blocking=False):
            raise K3sError("snapshot save already in progress")
        try:
            if self.etcd.status().get("isLearner"):
                raise K3sError("unable to take snapshot: not supported for learner")
            path = _checked(folder) / f"{name}-{self.node}-{round(self.now())}"
            log.info(f"Saving etcd snapshot to {path}")
            _write(path, self.etcd.snapshot())
            if compress:
                path = _compressed(path)
            created, deleted = [path.name], self._prune(folder, name, retention)
            if store:
                created += _uploaded(store, path)
                deleted += _prune(store, name) if retention else []
            return {"created": created, "deleted": deleted}
        finally:
            self._one.release()

    def take_scheduled(self) -> None:
        """Take one with the server's flags; logs failures."""
        wanted = self.options
        try:
            self.save(
                wanted.name,
                wanted.folder,
                wanted.retention,
                compress=wanted.compress,
                store=self._store(None),
            )
        except Exception as error:  # noqa: BLE001 -- the server runs on and tries again
            log.warning(f"Failed to take scheduled snapshot: {error}")

    def _found(self, folder: Path) -> list[Snapshot]:
        files = [read_snapshot(path) for path in _checked(folder).iterdir() if path.is_file()]
        return sorted(files, key=lambda one: (one.created, one.name))

    def _prune(self, folder: Path, prefix: str, retention: int) -> list[str]:
        doomed = surplus(self._found(folder), prefix, retention)
        for one in doomed:
            log.info(f"Removing local snapshot {folder / one.name}")
            (folder / one.name).unlink()
        return [one.name for one in doomed]

    @staticmethod
    def _delete(folder: Path, store: S3 | None, names: Sequence[str]) -> list[str]:
        if any(Path(name).name != name for name in names):
            raise K3sError("invalid snapshot name: path traversal not allowed")
        deleted = [name for name in names if (_checked(folder) / name).is_file()]
        for name in deleted:
            (folder / name).unlink()
        return [*deleted, *(name for name in names if store and store.delete(name))]


def _in(store: S3 | None) -> list[Snapshot]:
    return [of_object(store, found) for found in store.objects()] if store else []


def _uploaded(store: S3, path: Path) -> list[str]:
    log.info(f"Saving etcd snapshot {path.name} to S3")
    try:
        store.put(path.name, path.read_bytes())
    except S3Error as error:
        log.warning(f"Error received during snapshot upload to S3: {error}")
        return []
    log.info(f"S3 upload complete for {path.name}")
    return [path.name]


def _prune(store: S3 | None, prefix: str) -> list[str]:
    doomed = surplus(_in(store), prefix, store.options.retention) if store else []
    for one in doomed:
        log.info(f"Removing S3 snapshot: {one.location}")
        if store:
            store.delete(one.name)
    return [one.name for one in doomed]


def _checked(folder: Path) -> Path:
    """A folder that exists; only the default one is made."""
    if folder == FOLDER:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not folder.exists():
        raise K3sError(f"failed to get etcd-snapshot-dir: stat {folder}: no such file or directory")
    if not folder.is_dir():
        raise K3sError(f"failed to get etcd-snapshot-dir: {folder} is not a directory")
    return folder


def _write(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file atomically."""
    partial = path.with_name(f"{path.name}.part")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def _compressed(path: Path) -> Path:
    target = path.with_name(path.name + COMPRESSED)
    try:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            target.chmod(0o600)
            archive.write(path, path.name)
    finally:
        path.unlink()
    return target


def decompressed(path: Path) -> Path:
    """The file to restore; an archive is decompressed into a file beside it."""
    if not path.name.endswith(COMPRESSED):
        return path
    log.info(f"Decompressing etcd snapshot file: {path}")
    with zipfile.ZipFile(path) as archive:
        target = path.with_name(path.name.removesuffix(COMPRESSED))
        write_secret(target, "")
        target.write_bytes(archive.read(archive.namelist()[0]))
    return target


def table(listing: Mapping[str, Any]) -> str:
    """The list as ``k3s etcd-snapshot ls`` prints it."""
    rows = [("Name", "Location", "Size", "Created")]
    for item in listing["items"]:
        spec, status = item["spec"], item["status"]
        rows.append((spec["snapshotName"], spec["location"], status["size"], status["creationTime"]))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        " ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    return "\n".join(lines)


def read_request(body: bytes) -> Mapping[str, Any]:
    """Decode a client's request; raises K3sError."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise K3sError(f"invalid snapshot request: {error}") from None
    if not isinstance(request, dict):
        raise K3sError("invalid snapshot request: the JSON isn't an object")
    return request
