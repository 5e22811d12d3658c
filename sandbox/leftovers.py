"""What an environment could leave behind on this machine or in the cloud: found and removed."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterable
from pathlib import Path

from sandbox.site import Site

LOOKED_AT = "namespaces, links, mounts, cgroups, processes, routes, files"
CLOUD_LISTS = (
    "servers",
    "networks",
    "load_balancers",
    "ssh_keys",
    "placement_groups",
    "firewalls",
    "primary_ips",
    "certificates",
)
CGROUPS = Path("/sys/fs/cgroup")


def remove(site: Site) -> None:
    """Remove machines, networks, mounts and cgroups that carry the site's id."""
    if os.geteuid() == 0:
        from sandbox.machines.cleanup import remove_all  # noqa: PLC0415 - only where machines can be

        remove_all(site.id, site.state)


def find(site: Site) -> list[str]:
    """What is left on this machine, in words; empty when nothing is."""
    name = f"ccmfs-{site.id}"
    found = [f"namespace {path.name}" for path in _children(Path("/run/netns")) if path.name.startswith(name)]
    found += [f"link {path.name}" for path in _children(Path("/sys/class/net")) if site.id in path.name]
    found += [
        f"mount {target}" for target in _mounts() if name in target or target.startswith(f"{site.state}/")
    ]
    found += [f"cgroup {path}" for path in _cgroups(name)]
    found += [f"process {pid}" for pid in _processes([name, str(site.state)])]
    found += [
        f"file {path}" for path in (*_state(site.state), site.kubeconfig, site.ssh_key) if path.exists()
    ]
    return found


def in_cloud(site: Site) -> list[str]:
    """What the cloud's API still lists, as ``kind name``."""
    found = []
    for kind in CLOUD_LISTS:
        request = urllib.request.Request(  # noqa: S310 - our own address
            f"{site.endpoint}/{kind}", headers={"Authorization": f"Bearer {site.token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            found += [f"{kind} {item.get('name', item['id'])}" for item in json.load(answer)[kind]]
    return found


def _state(folder: Path) -> Iterable[Path]:
    """The folder; if it is somebody's volume, only what lies in it."""
    return _children(folder) if folder.is_mount() else [folder]


def _children(folder: Path) -> Iterable[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _mounts() -> list[str]:
    return [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def _cgroups(name: str) -> list[Path]:
    return [Path(folder) for folder, names, _ in os.walk(CGROUPS) if name in names]


def _processes(words: Iterable[str]) -> list[int]:
    """Processes, other than this one, whose command line names one of the words."""
    wanted, own = [word.encode() for word in words], os.getpid()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(folder.name) != own and any(word in command for word in wanted):
            found.append(int(folder.name))
    return found
