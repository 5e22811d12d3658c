"""The health of targets, read from haproxy's statistics."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from hetzner_machines.balancer.config import backend_name, server_name

T = TypeVar("T")

DETAILS = {
    "L4CON": "layer4_no_connection",
    "L4TOUT": "layer4_timeout",
    "L6TOUT": "layer7_timeout",
    "L7TOUT": "layer7_timeout",
    "L7STS": "unexpected_http_status",
    "L7RSP": "unexpected_http_content",
}
"""The name in Hetzner's API for each result of a haproxy health check. The name of any other result is
``unspecified``."""


def parse(text: str) -> dict[tuple[str, str], str]:
    """Health by (backend, server) from ``show stat``, without servers that were not checked yet."""
    return {
        (row["pxname"], row["svname"]): "healthy" if row["status"].startswith("UP") else "unhealthy"
        for row, _ in _checked(text)
    }


def failures(text: str) -> dict[tuple[str, str], tuple[str, int | None]]:
    """The API's ``detail`` and the HTTP status of unhealthy servers, by (backend, server)."""
    return {
        (row["pxname"], row["svname"]): (
            DETAILS.get(result, "unspecified"),
            int(row["check_code"]) if result == "L7STS" and row["check_code"].isdecimal() else None,
        )
        for row, result in _checked(text)
        if not row["status"].startswith("UP")
    }


def _checked(text: str) -> Iterator[tuple[dict[str, str], str]]:
    """The rows of checked servers, each with the result of its last check."""
    for row in csv.DictReader(text.removeprefix("# ").splitlines()):
        result = (row["check_status"] or "").removeprefix("* ")
        if row["svname"] not in {"FRONTEND", "BACKEND"} and result not in {"", "INI"}:
            yield row, result


def by_target(
    seen: Mapping[tuple[str, str], T], addresses: Iterable[str], ports: Iterable[int]
) -> dict[tuple[str, int], T]:
    """The values by (address, listen port) instead of (backend, server)."""
    named = {(a, p): seen.get((backend_name(p), server_name(a))) for p in ports for a in addresses}
    return {key: known for key, known in named.items() if known}
