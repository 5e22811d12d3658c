"""The machine's share of the host, by its cgroup: the kubelet would report the whole host."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_MEMORY = ("memory/memory.limit_in_bytes", "memory.max")
_UNLIMITED = 1 << 60
"""In version 1 of cgroups, a limit above this number means that there is no limit."""


@dataclass(frozen=True)
class Capacity:
    """Resources of a machine."""

    memory: int | None  # bytes; None when not limited
    millicores: int | None  # thousandths of a processor; None when not limited


def read_capacity(cgroups: Path = Path("/sys/fs/cgroup")) -> Capacity:
    """The limits of this machine's own cgroup, in version 1 or 2."""
    texts = (_read(cgroups / name) for name in _MEMORY)
    memory = next((int(text) for text in texts if text.isdigit() and int(text) < _UNLIMITED), None)
    return Capacity(memory, _millicores(cgroups))


def _millicores(cgroups: Path) -> int | None:
    words = _read(cgroups / "cpu.max").split()
    if len(words) != 2:
        words = [_read(cgroups / "cpu/cpu.cfs_quota_us"), _read(cgroups / "cpu/cpu.cfs_period_us")]
    quota, period = words
    if not (quota.isdigit() and period.isdigit() and int(period)):
        return None
    return int(quota) * 1000 // int(period)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def host_capacity(cores: int, meminfo: str) -> Capacity:
    """What the kubelet reports without a reservation."""
    total = next(line for line in meminfo.splitlines() if line.startswith("MemTotal:"))
    return Capacity(int(total.split()[1]) * 1024, cores * 1000)


def system_reserved(machine: Capacity, host: Capacity) -> Mapping[str, str]:
    """What the kubelet must reserve so that Pods get no more than the machine has."""
    reserved = {}
    if machine.memory is not None and host.memory is not None and machine.memory < host.memory:
        # Rounded up, so that Pods never get too much.
        reserved["memory"] = f"{-((machine.memory - host.memory) >> 20)}Mi"
    if (
        machine.millicores is not None
        and host.millicores is not None
        and machine.millicores < host.millicores
    ):
        reserved["cpu"] = f"{host.millicores - machine.millicores}m"
    return reserved
