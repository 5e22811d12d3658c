"""Removes everything of a site by names and files, after any crash; needs no sandbox process."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hetzner_machines import cgroups, disk, internet, libc, mounts, namespaces, processes, snapshots
from hetzner_machines.errors import CommandFailed, StillThere
from hetzner_machines.names import Names
from hetzner_machines.runner import ip, run_blocking
from hetzner_machines.volumes import loops

FOLDERS = (disk.MACHINES, "load-balancers", "volumes", snapshots.FOLDER)
DEADLINE = 15.0


def remove_all(site_id: str, state: Path) -> list[str]:
    """Remove every process, namespace, link, route, table, mount, cgroup and file of a site. Blocks."""
    names, state = Names(site_id), state.resolve()
    removed: list[str] = []
    left: list[str] = []
    for part in (_processes, _way_out, _link, _namespaces, _cgroups):
        for thing, gone in part(names):
            (removed if gone else left).append(thing)
    for part in (_mounts, _loops, _files):
        for thing, gone in part([*(state / folder for folder in FOLDERS), names.sockets]):
            (removed if gone else left).append(thing)
    if left:
        raise StillThere(left)
    return removed


def _processes(names: Names) -> Iterator[tuple[str, bool]]:
    folders = cgroups.find(names.cgroup)
    numbers, stubborn = processes.kill_all(lambda: cgroups.members(folders), DEADLINE)
    for namespace in _own_namespaces(names):
        found, busy = namespaces.kill_inside(namespace)
        numbers |= found
        stubborn |= busy
    for pid in sorted(numbers):
        yield f"process {pid}", pid not in stubborn


def _own_namespaces(names: Names) -> list[str]:
    return [name for name in namespaces.listing() if name.startswith(names.prefix)]


def _way_out(names: Names) -> Iterator[tuple[str, bool]]:
    if shutil.which("nft") and internet.is_open(names):
        yield f"table {names.table} of nftables", _tried(lambda: internet.close_way(names))


def _link(names: Names) -> Iterator[tuple[str, bool]]:
    link = names.host_link
    if Path("/sys/class/net", link).exists():
        yield f"link {link} and its routes", _tried(lambda: run_blocking(["ip", "link", "del", link]))


def _namespaces(names: Names) -> Iterator[tuple[str, bool]]:
    for name in _own_namespaces(names):
        # Deleting one end removes an interface at once; with the namespace it would take some time.
        if namespaces.exists(name):
            links = json.loads(run_blocking(ip(name, "-json", "link", "show", "type", "veth")) or "[]")
            batch = "".join(f"link del {link['ifname']}\n" for link in links)
            _tried(lambda name=name, batch=batch: run_blocking(ip(name, "-force", "-batch", "-"), batch))
        yield f"namespace {name}", _tried(lambda name=name: namespaces.delete(name))


def _cgroups(names: Names) -> Iterator[tuple[str, bool]]:
    folders = cgroups.find(names.cgroup)
    busy = cgroups.remove(folders)
    for folder in folders:
        yield f"cgroup {folder}", folder not in busy


def _mounts(folders: Sequence[Path]) -> Iterator[tuple[str, bool]]:
    for folder in folders:
        for path in mounts.below(folder):
            yield f"mount {path}", _tried(lambda path=path: libc.unmount(path, libc.MNT_DETACH))


def _loops(folders: Sequence[Path]) -> Iterator[tuple[str, bool]]:
    for folder in folders:
        for number, path in list(loops(folder)):
            device = f"/dev/loop{number}"
            yield (
                f"loop device {device} of volume {path.name}",
                _tried(lambda device=device: run_blocking(["losetup", "--detach", device])),
            )


def _files(folders: Sequence[Path]) -> Iterator[tuple[str, bool]]:
    for path in folders:
        if path.exists():
            yield f"folder {path}", not mounts.below(path) and _tried(lambda path=path: shutil.rmtree(path))


def _tried(work: Callable[[], object]) -> bool:
    """Call a function; False if it fails, which the caller reports."""
    try:
        work()
    except (OSError, CommandFailed):
        return False
    return True
