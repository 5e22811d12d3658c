"""Servers that are lost, and a snapshot of etcd that outlives them."""

import base64
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.cluster_state import changed, provider_ids
from tests.e2e.conftest import Clone, eventually
from tests.e2e.looks import load_balancer_ip, targets

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


@contextmanager
def restored(clone: Clone, roles: Collection[str]) -> Iterator[None]:
    """Assert that the block replaces exactly these control servers and keeps the workload."""
    before = clone.server_ids()
    eventually(lambda: targets(clone) == set(before.values()), 120, "all servers behind the load balancer")
    kept = _kept(clone)
    yield
    after = clone.server_ids()
    assert after.keys() == before.keys()
    assert {role for role in after if after[role] != before[role]} == {*roles}
    eventually(lambda: provider_ids(clone.nodes()) == after, SECONDS, "every Node is its own server's")
    eventually(lambda: targets(clone) == set(after.values()), SECONDS, "all servers behind the load balancer")
    assert _kept(clone) == kept
    again = clone.dev("up").stdout
    assert not changed(again), again


def _kept(clone: Clone) -> list[Any]:
    """Of the workload: load balancer and its address, Service, and containers; and the networks."""
    pods = clone.kubectl("get", "pods", "--selector=app=web")["items"]
    return [
        [balancer["id"] for balancer in clone.api("/load_balancers")["load_balancers"]],
        load_balancer_ip(clone, "service/web"),
        clone.kubectl("get", "service", "web")["metadata"]["uid"],
        [status["containerID"] for pod in pods for status in pod["status"]["containerStatuses"]],
        [network["id"] for network in clone.api("/networks")["networks"]],
    ]
