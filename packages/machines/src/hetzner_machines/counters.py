"""Counters of machines and load balancers, by series of the API's metrics.

Sources: the kernel's documentation of cgroups, of
version 1 (cpuacct, blkio) and of version 2 (cpu.stat, io.stat); haproxy's management guide ("show stat").
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hetzner_machines.records import Hierarchy

_DISK = "disk.0"
_BYTES, _OPERATIONS = "blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_serviced_recursive"


def of_cgroups(hierarchies: Sequence[Hierarchy]) -> dict[str, float]:
    """CPU time in hundredths of a second and disk traffic of a machine with these cgroups."""
    found: dict[str, float] = {}
    for own in hierarchies:
        directory, controllers = Path(own.directory), own.name.split(",")
        if own.kind == "cgroup2":
            found |= cpu_v2(_read(directory / "cpu.stat")) | disk_v2(_read(directory / "io.stat"))
        elif "cpuacct" in controllers:
            found |= cpu_v1(_read(directory / "cpuacct.usage"))
        elif "blkio" in controllers:
            found |= disk_v1(_read(directory / _BYTES), _read(directory / _OPERATIONS))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the controller is missing, or the machine has ended
        return ""


def cpu_v1(usage: str) -> dict[str, float]:
    """From ``cpuacct.usage``, in nanoseconds."""
    return {"cpu": int(usage) / 1e7} if usage.strip() else {}


def cpu_v2(stat: str) -> dict[str, float]:
    """From ``cpu.stat``, in microseconds."""
    lines = dict(line.split() for line in stat.splitlines())
    return {"cpu": int(lines["usage_usec"]) / 1e4} if "usage_usec" in lines else {}


def disk_v1(size: str, operations: str) -> dict[str, float]:
    """From ``blkio.throttle.io_service_bytes`` and ``io_serviced``: lines such as ``8:0 Read 4096``."""
    return {
        f"{_DISK}.{what}.{way.lower()}": float(sum(_numbers(text, way)))
        for what, text in (("bandwidth", size), ("iops", operations))
        if text
        for way in ("Read", "Write")
    }


def _numbers(text: str, way: str) -> Iterable[int]:
    return (int(row[2]) for row in map(str.split, text.splitlines()) if row[1:2] == [way])


def disk_v2(stat: str) -> dict[str, float]:
    """From ``io.stat``: lines such as ``8:0 rbytes=4096 wbytes=0 rios=1 wios=0 …``."""
    names = {
        "rbytes": "bandwidth.read",
        "wbytes": "bandwidth.write",
        "rios": "iops.read",
        "wios": "iops.write",
    }
    fields = [field.partition("=") for line in stat.splitlines() for field in line.split()[1:]]
    if not stat:
        return {}
    return {
        f"{_DISK}.{shown}": float(sum(int(value) for key, _, value in fields if key == name))
        for name, shown in names.items()
    }


def of_port(link: Mapping[str, Any]) -> dict[str, float]:
    """Traffic of a public port, from ``ip -stats -json link``: the router's output is its input."""
    seen = link["stats64"]
    ways = (("in", seen["tx"]), ("out", seen["rx"]))
    pairs = (("pps", "packets"), ("bandwidth", "bytes"))
    return {f"network.0.{name}.{way}": float(part[unit]) for way, part in ways for name, unit in pairs}


def of_balancer(statistics: str) -> dict[str, float]:
    """Traffic of a load balancer, from haproxy's ``show stat``."""
    rows = csv.DictReader(statistics.removeprefix("# ").splitlines())
    fronts = [row for row in rows if row["svname"] == "FRONTEND"]

    def total(column: str) -> float:
        return float(sum(int(row[column] or 0) for row in fronts))

    # A frontend in mode tcp counts no requests (0): there each connection is one.
    requests = sum(int(row["req_tot" if row["mode"] == "http" else "stot"] or 0) for row in fronts)
    return {
        "open_connections": total("scur"),
        "connections_per_second": total("conn_tot"),
        "requests_per_second": float(requests),
        "bandwidth.in": total("bin"),
        "bandwidth.out": total("bout"),
    }
