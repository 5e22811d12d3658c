"""Servers that are lost, and a snapshot of etcd that outlives them."""

import base64
from collections.abc import Collection
from pathlib import Path

from tests.e2e.conftest import Clone, eventually

FOLDER = "/var/lib/rancher/k3s/server/db/snapshots"
SECONDS = 60.0


def save_snapshot(clone: Clone, role: str = "control") -> str:
    """Save etcd on a control server; the name of the snapshot, which has the time in it."""
    saved = clone.dev("ssh", role, "k3s etcd-snapshot save --name before").stdout
    return saved.partition("Snapshot ")[2].partition(" saved")[0]


def take_snapshot(clone: Clone, file: Path, role: str = "control") -> str:
    """Save etcd on a control server, and copy the snapshot to this host. Returns the file's path."""
    name = save_snapshot(clone, role)
    taken = clone.dev("ssh", role, f"base64 -w0 {FOLDER}/{name}").stdout
    file.write_bytes(base64.b64decode(taken.strip().splitlines()[-1]))
    return str(file)


def lose(clone: Clone, roles: Collection[str]) -> None:
    """Delete servers behind the program's back; returns when they are gone."""
    ids = clone.server_ids()
    for role in roles:
        clone.api(f"/servers/{ids[role]}", method="DELETE")
    eventually(lambda: not {*roles} & {*clone.server_ids()}, SECONDS, f"{', '.join(roles)} are gone")


def power(clone: Clone, role: str, action: str) -> None:
    """Switch a server ``poweron``, or ``poweroff`` without a warning."""
    clone.api(f"/servers/{clone.server_ids()[role]}/actions/{action}", body={}, method="POST")
