"""What the version before leaves in cluster and cloud: ``python tests/process/version_before.py COMMIT``.

The CCM of that commit runs between a real API server and the emulated cloud until all is as it wants it. What
it wrote is kept in ``version_before.json``: tests need nothing of the history then, which a clone may lack.
Record it again after each release, from the tag of the release.
"""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # pytest adds these folders by itself
    sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "unit" / "hetzner")]

from emulated_cloud import TOKEN
from process_world import LEASE, World, open_world

from hetzner_emulator.config import CloudConfig
from image.source import project_version
from release import commits
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import CONTROL_PLANE
from sandbox.kubernetes.controlplane import ControlPlane
from sandbox.site import cache_directory

RECORDED = Path(__file__).with_suffix(".json")
NODES = "/api/v1/nodes"
SERVICES = "/api/v1/namespaces/default/services"
ENVIRONMENT = {"HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1", "CCM_CLUSTER_ID": "the-cluster"}
_PREFIX = "load-balancer.hetzner.cloud/"
EXAMPLES: dict[str, dict[str, str]] = {
    "plain": {},
    "private": {"use-private-ip": "true", "algorithm-type": "least_connections"},
    "named": {"name": "by-name", "protocol": "http", "health-check-interval": "7s"},
    "proxied": {"uses-proxyprotocol": "true", "use-private-ip": "true", "disable-public-network": "true"},
}
"""Annotations of the Services, by their names."""


async def leave(world: World) -> list[dict[str, Any]]:
    """Lets a CCM have two nodes and all Services; returns the objects once it has nothing more to do."""
    for number, name in enumerate(("node-1", "node-2"), 2):
        await world.machine(name, number, labels={"team": "blue"})
    ccm = await world.start(environment=ENVIRONMENT)
    await world.ready(ccm)
    for name, keys in EXAMPLES.items():
        metadata = {"name": name, "annotations": {_PREFIX + key: value for key, value in keys.items()}}
        ports = [{"name": "web", "port": 80, "targetPort": 8080}]
        body = {"metadata": metadata, "spec": {"type": "LoadBalancer", "ports": ports}}
        await world.kube("POST", SERVICES, body)
    await world.eventually(lambda: world.read(SERVICES), lambda found: all(map(_is_served, found["items"])))
    await world.eventually(world.routes, lambda found: len(found) == 2)
    for name in ("node-1", "node-2"):
        await world.node(name, _is_initialized)
    nodes, services = await world.read(NODES), await world.read(SERVICES)
    found = [node | {"kind": "Node"} for node in nodes["items"]]
    found += [service | {"kind": "Service"} for service in services["items"] if _is_annotated(service)]
    lease = await world.read(LEASE)
    lease["spec"]["holderIdentity"] = f"node-1_{lease['spec']['holderIdentity'].rpartition('_')[2]}"
    found.append(lease)
    await world.kill(ccm)
    for item in found:
        del item["metadata"]["managedFields"], item["metadata"]["resourceVersion"]
        item["status"] = item.get("status") or {}
    return found


def _is_annotated(service: dict[str, Any]) -> bool:
    return service["metadata"]["name"] in EXAMPLES


def _is_served(service: dict[str, Any]) -> bool:
    return not _is_annotated(service) or bool(service["status"]["loadBalancer"].get("ingress"))


def _is_initialized(node: dict[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
    keys = {taint["key"] for taint in node["spec"].get("taints", [])}
    return conditions.get("NetworkUnavailable") == "False" and not any("uninitialized" in key for key in keys)


def read_state(path: Path) -> dict[str, Any]:
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT kind, id, data FROM records ORDER BY kind, id").fetchall()
        counters = database.execute("SELECT name, value FROM counters ORDER BY name").fetchall()
    records = [[kind, number, json.loads(data)] for kind, number, data in rows]
    return {"records": records, "counters": counters}


def write_state(path: Path, state: dict[str, Any]) -> None:
    """The file again; the cloud makes its tables."""
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE records (kind TEXT, id INTEGER, data BLOB NOT NULL, PRIMARY KEY (kind, id))"
        )
        database.execute("CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL)")
        rows = [(kind, number, json.dumps(data).encode()) for kind, number, data in state["records"]]
        database.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)
        database.executemany("INSERT INTO counters VALUES (?, ?)", state["counters"])
    database.close()


def cloud(path: Path) -> CloudConfig:
    return CloudConfig(tokens={TOKEN: "default"}, rate_limit=0, state_file=path)


def renamed(state: dict[str, Any], uids: dict[str, str]) -> dict[str, Any]:
    """A cloud's state for objects that have other UIDs: an API server gives its own."""
    text = json.dumps(state)
    for old, new in uids.items():
        text = text.replace(old, new).replace(_in_names(old), _in_names(new))
    return json.loads(text)


def _in_names(uid: str) -> str:
    """As Kubernetes puts a UID into a load balancer's name, behind an "a", 32 characters in all."""
    return uid.replace("-", "")[:31]


async def record(tree: Path, folder: Path) -> list[dict[str, Any]]:
    """What the CCM of a tree leaves in the cluster; the cloud's file is left in the folder."""
    programs = toolchain.find(cache_directory(os.environ), CONTROL_PLANE)
    assert programs, "the Kubernetes toolchain is not built: ./dev setup builds it"

    def before(_: ControlPlane) -> CloudConfig:
        return cloud(folder / "cloud.sqlite")

    async with open_world(programs, folder, before=before) as world:
        world.modules = str(tree)
        return await leave(world)


def main(name: str) -> None:
    commit = git("rev-parse", f"{name}^{{commit}}").decode().strip()
    with tempfile.TemporaryDirectory() as place:
        tree, folder = Path(place, "tree"), Path(place, "world")
        commits.export(Path(__file__).parents[2], tree, commit)
        folder.mkdir()
        objects = asyncio.run(record(tree, folder))
        state = read_state(folder / "cloud.sqlite")
        found = {"commit": commit, "version": project_version(tree), "objects": objects, "cloud": state}
    RECORDED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, timeout=60).stdout


if __name__ == "__main__":
    main(sys.argv[1])
