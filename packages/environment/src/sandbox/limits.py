"""Limits of the host: whether what an environment needs is there, looked at before anything is made.

What the host has is read once (:func:`read`); what is missing, and the one command that lifts each limit, is
a pure function of that (:func:`findings`). ``./dev up`` refuses to begin what would certainly fail;
``./dev doctor`` shows everything.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ccmfs_common import host
from hetzner_machines import capacity, ipv6, machine
from hetzner_machines.names import Names
from sandbox import daemon, stack_settings
from sandbox.backend_choice import Choice
from sandbox.environment import MACHINES, STACKS
from sandbox.errors import MissingRequirement
from sandbox.kubernetes import machine_image, toolchain
from sandbox.kubernetes.components import KUBERNETES
from sandbox.site import Clone

GIB = 1 << 30
MIB = 1 << 20

# Measured on a running environment: what processes have resident, and what machines write in an hour.
MEMORY_OF_A_MACHINE = 256 * MIB
MEMORY_OF_A_CONTROL_PLANE = 1 * GIB
DISK_OF_A_MACHINE = 512 * MIB
WATCHES_OF_A_MACHINE = 256
# The modules of Go, what it keeps of a build, and the program (6 GB for all); Debian and the container store.
DISK_OF_KUBERNETES = 6 * GIB
DISK_OF_A_PROGRAM = GIB // 2
DISK_OF_AN_IMAGE = 2 * GIB

WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")

Severity = Literal["ok", "note", "stop"]


@dataclass(frozen=True)
class Wanted:
    """Everything that an environment needs."""

    machines: int = 0  # servers that are Linux machines
    control_planes: int = 0  # on a machine or on loopback
    cached: int = 0  # bytes that go into the cache: programs to be built, images

    @property
    def instances(self) -> int:
        """Inotify instances that it takes."""
        return capacity.instances_needed(self.machines, self.control_planes)

    @property
    def watches(self) -> int:
        """Inotify watches that it takes."""
        return self.machines * WATCHES_OF_A_MACHINE

    @property
    def memory(self) -> int:
        """Bytes of memory that it takes."""
        return self.machines * MEMORY_OF_A_MACHINE + self.control_planes * MEMORY_OF_A_CONTROL_PLANE


@dataclass(frozen=True)
class Space:
    """Bytes to be written below a folder."""

    folder: Path  # where
    device: int  # number of its file system; what shares one shares its space
    free: int  # bytes that we can write there
    needed: int  # bytes that will be written


@dataclass(frozen=True)
class Facts:
    """What the host has left."""

    instances_free: int  # inotify instances that our user can still have, counted up to what is wanted
    instances_allowed: int  # in all
    watches_used: int  # inotify watches that our user's processes have, as far as they can be seen
    watches_allowed: int  # in all
    memory: int  # bytes that programs can have without swapping
    spaces: Sequence[Space] = ()  # where something will be written
    ipv6: str = ""  # why it can have no route to machines' IPv6 addresses; empty when it can


@dataclass(frozen=True)
class Finding:
    """One limit that was looked at."""

    severity: Severity  # ``stop``: what is wanted would certainly fail; ``note``: it may
    what: str  # the limit
    found: str  # what there is, and what is needed
    remedy: str = ""  # the one command that lifts it, or what to do


def findings(facts: Facts, wanted: Wanted) -> list[Finding]:
    """Whether what is wanted fits into what there is."""
    return [
        _instances(facts, wanted.instances),
        _watches(facts, wanted.watches),
        _memory(facts, wanted.memory),
        *_spaces(facts.spaces),
        *_ipv6(facts.ipv6),
    ]


def _instances(facts: Facts, needed: int) -> Finding:
    what = "inotify instances"
    free, allowed = facts.instances_free, facts.instances_allowed
    found = f"the environment needs {needed}, and {free} of {allowed} are free"
    if free >= needed:
        return Finding("ok", what, found)
    return Finding("stop", what, found, capacity.remedy(allowed, needed))


def _watches(facts: Facts, needed: int) -> Finding:
    free = max(0, facts.watches_allowed - facts.watches_used)
    found = f"the environment needs {needed}, and {free} of {facts.watches_allowed} are free"
    if free >= needed:
        return Finding("ok", "inotify watches", found)
    more = max(1 << 16, 2 * (facts.watches_used + needed))
    return Finding("stop", "inotify watches", found, f"sudo sysctl -w fs.inotify.max_user_watches={more}")


def _memory(facts: Facts, needed: int) -> Finding:
    found = f"the environment needs {_size(needed)} of memory; available: {_size(facts.memory)}"
    if facts.memory >= needed:
        return Finding("ok", "memory", found)
    return Finding("note", "memory", found, "to create fewer machines: ./dev up --workers 0")


def _spaces(spaces: Sequence[Space]) -> list[Finding]:
    """One finding for each file system."""
    found = []
    for device in dict.fromkeys(space.device for space in spaces):
        shared = [space for space in spaces if space.device == device]
        folders = " and ".join(str(space.folder) for space in shared)
        free, needed = min(space.free for space in shared), sum(space.needed for space in shared)
        text = f"the environment needs {_size(needed)}, and the disk of {folders} has {_size(free)} free"
        remedy = f"free up {_size(needed - free)}, or set XDG_CACHE_HOME to move the cache to another disk"
        enough = free >= needed
        found.append(Finding("ok" if enough else "stop", "disk", text, "" if enough else remedy))
    return found


def _ipv6(obstacle: str) -> list[Finding]:
    if not obstacle:
        return []
    remedy = "no problem: machines and load balancers are still reachable at their IPv4 addresses"
    return [Finding("note", "IPv6", f"this host can't reach machines by IPv6: {obstacle}", remedy)]


def _size(number: int) -> str:
    return f"{number / GIB:.1f} GiB" if number >= GIB else f"{number / MIB:.0f} MiB"


def refuse(found: Sequence[Finding]) -> None:
    """Make sure that nothing is begun that would certainly fail; names each such limit with what lifts it."""
    stops = [finding for finding in found if finding.severity == "stop"]
    if stops:
        lines = [f"{finding.what}: {finding.found} → {finding.remedy}" for finding in stops]
        raise MissingRequirement(
            "\n  ".join(["this host doesn't meet these requirements, so nothing was created:", *lines])
        )


def wanted(clone: Clone, choice: Choice, servers: int, controls: int = 1) -> Wanted:
    """What is not there yet of an environment."""
    unbuilt = {one for built in choice.toolchains for one in toolchain.unbuilt(clone.cache, built)}
    cached = sum(DISK_OF_KUBERNETES if one in KUBERNETES else DISK_OF_A_PROGRAM for one in unbuilt)
    if choice.kind != MACHINES:
        return Wanted(control_planes=int(daemon.find(clone) is None), cached=cached)
    running = running_machines(clone.state)
    return Wanted(
        machines=max(0, servers - running),
        control_planes=0 if running else controls,
        cached=cached + (0 if machine_image.find(clone.cache) else DISK_OF_AN_IMAGE),
    )


def running_machines(state: Path) -> int:
    """How many machines of a site run."""
    known = [machine.load(folder) for folder in (state / "machines").glob("[0-9]*")]
    return sum(1 for one in known if one and one.keeper)


def read(clone: Clone, wanted: Wanted, proc: Path = Path("/proc")) -> Facts:
    """Look at the host; changes nothing."""
    return Facts(
        instances_free=capacity.instances_free(wanted.instances),
        instances_allowed=capacity.instances_allowed(),
        watches_used=watches_used(proc),
        watches_allowed=int(WATCHES.read_text()),
        memory=host.available_memory(proc),
        spaces=(_space(clone.state, wanted.machines * DISK_OF_A_MACHINE), _space(clone.cache, wanted.cached)),
        ipv6=(wanted.machines and ipv6.obstacle(Names(clone.id).host_link, proc / "sys/net/ipv6")) or "",
    )


def watches_used(proc: Path = Path("/proc")) -> int:
    """Inotify watches of our user's processes, as far as they can be seen."""
    return sum(_watches_of(process) for process in proc.iterdir() if process.name.isdigit())


def _watches_of(process: Path) -> int:
    try:
        if process.stat().st_uid != os.geteuid():
            return 0
        fds = [fd.name for fd in (process / "fd").iterdir() if os.readlink(fd) == capacity.INOTIFY]  # noqa: PTH115
        return sum((process / "fdinfo" / fd).read_text().count("inotify wd:") for fd in fds)
    except OSError:  # ended meanwhile
        return 0


def _space(folder: Path, needed: int) -> Space:
    return Space(folder, folder.stat().st_dev, shutil.disk_usage(folder).free, needed)


def look(clone: Clone, choice: Choice, workers: int | None = None) -> list[Finding]:
    """Whether an environment fits on this host; changes nothing."""
    settings = stack_settings.Settings(clone, STACKS[choice.kind])
    count, controls = settings.workers if workers is None else workers, settings.controls
    missing = wanted(clone, choice, controls + count + settings.nat_servers, controls)
    return findings(read(clone, missing), missing)
