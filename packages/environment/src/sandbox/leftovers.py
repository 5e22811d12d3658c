"""What an environment could leave behind on this machine or in the cloud: found and removed."""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetzner_machines import cgroups, internet, mounts, namespaces, processes
from hetzner_machines.cleanup import remove_all
from hetzner_machines.names import Names
from hetzner_machines.volumes import loops
from sandbox import daemon
from sandbox.api import Api
from sandbox.site import Site

LOOKED_AT = "namespaces, links, mounts, loop devices, cgroups, processes, routes, nftables, files"
CLOUD_LISTS = (
    "servers",
    "networks",
    "load_balancers",
    "ssh_keys",
    "placement_groups",
    "firewalls",
    "primary_ips",
    "certificates",
    "volumes",
    "floating_ips",
    "images",
)
MANAGED_BY = ("managed-by", "ccm-from-scratch")
"""The label that the Pulumi program sets on its objects (ccm_pulumi/config/labels.py)."""
NODE_GROUP, SEPARATOR = "hcloud/node-group", "--"
"""The label that contains a server's node group, ``CLUSTER--POOL``, and the separator in this name."""
SERVICE_UID = "hcloud-ccm/service-uid"
ADOPTED = "ccm-from-scratch/adopted"
CLUSTER = "ccm-from-scratch/cluster"
"""Labels of a CCM (ccm_pulumi/lib/ownership.py)."""


@dataclass(frozen=True)
class CloudObject:
    """Something that the cloud's API lists."""

    kind: str  # as in the API's paths
    id: int
    name: str  # as its maker called it
    # Whether it goes with the environment: the Pulumi program, its cluster-autoscaler or the CCM made it.
    # What the CCM only adopted is its maker's, and what is protected against deletion stays.
    ours: bool

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ').removesuffix('s')} {self.name}"


def remove(site: Site) -> None:
    """Remove machines, networks, mounts and cgroups that carry the site's id."""
    if os.geteuid() == 0:
        remove_all(site.id, site.state)


def find(site: Site) -> list[str]:
    """What is left on this machine, in words; empty when nothing is."""
    name = f"ccmfs-{site.id}"
    found = [f"namespace {each}" for each in namespaces.listing() if each.startswith(name)]
    found += [f"link {path.name}" for path in _children(Path("/sys/class/net")) if site.id in path.name]
    found += _tables(site)
    # The state itself may be a volume of the user.
    found += [
        f"mount {path}" for path in mounts.below(Path("/")) if name in str(path) or site.state in path.parents
    ]
    found += [f"loop device of {path}" for _, path in loops(site.state / "volumes")]
    found += [f"cgroup {path}" for path in cgroups.find(name)]
    left = [*_processes([name, str(site.state)]), *daemon.sandbox_processes(site)]
    found += [f"process {pid}" for pid in left]
    found += [
        f"file {path}" for path in (*_state(site.state), site.kubeconfig, site.ssh_key) if path.exists()
    ]
    return found


def in_cloud(site: Site) -> list[CloudObject]:
    """What the cloud's API lists; without addresses that come and go with their server."""
    return [
        cloud_object(kind, item)
        for kind in CLOUD_LISTS
        for item in Api(site.address).list(kind)
        if not goes_with_its_server(item) and item.get("type") != "system"
    ]


def cloud_object(kind: str, item: Mapping[str, Any]) -> CloudObject:
    """An item of a list, and whether it is ours."""
    labels = item["labels"]
    by_ccm = SERVICE_UID in labels and ADOPTED not in labels
    if kind == "certificates":  # those of the official CCM stay
        by_ccm = by_ccm and CLUSTER in labels
    by_autoscaler = kind == "servers" and SEPARATOR in labels.get(NODE_GROUP, "")
    protected = item.get("protection", {}).get("delete", False)
    managed = labels.get(MANAGED_BY[0]) == MANAGED_BY[1] or by_autoscaler
    ours = managed or (by_ccm and not protected)
    return CloudObject(kind, item["id"], item["name"] or str(item["id"]), ours)


def goes_with_its_server(item: Mapping[str, Any]) -> bool:
    """Whether it is deleted with a server: a primary IP that it is assigned to, or a backup."""
    return bool((item.get("auto_delete") and item.get("assignee_id")) or item.get("bound_to"))


def _tables(site: Site) -> list[str]:
    """The table of nftables, which only root can see or make."""
    if os.geteuid() != 0 or not shutil.which("nft"):
        return []
    names = Names(site.id)
    return [f"table {names.table} of nftables"] if internet.is_open(names) else []


def _state(folder: Path) -> Iterable[Path]:
    """The folder, or its content if it is a volume of the user."""
    return _children(folder) if folder.is_mount() else [folder]


def _children(folder: Path) -> Iterable[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _processes(words: Iterable[str]) -> list[int]:
    """Processes, other than this one, whose command line contains one of the words."""
    wanted, own = [word.encode() for word in words], os.getpid()
    return [
        pid for pid, command in processes.commands() if pid != own and any(word in command for word in wanted)
    ]
