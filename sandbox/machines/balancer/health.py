"""The health of targets, read from haproxy's statistics."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping

from sandbox.machines.balancer.config import backend_name, server_name


def parse(text: str) -> dict[tuple[str, str], str]:
    """Health by (backend, server) from what ``show stat`` says; who was not asked yet is left out."""
    rows = csv.DictReader(text.removeprefix("# ").splitlines())
    found = {}
    for row in rows:
        asked = (row["check_status"] or "").removeprefix("* ")
        if row["svname"] in {"FRONTEND", "BACKEND"} or asked in {"", "INI"}:
            continue
        up = row["status"].startswith("UP")
        found[row["pxname"], row["svname"]] = "healthy" if up else "unhealthy"
    return found


def by_target(
    seen: Mapping[tuple[str, str], str], addresses: Iterable[str], ports: Iterable[int]
) -> dict[tuple[str, int], str]:
    """Health by (address, listen port)."""
    named = {(a, p): seen.get((backend_name(p), server_name(a))) for p in ports for a in addresses}
    return {key: health for key, health in named.items() if health}
