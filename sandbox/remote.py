"""How our own commands reach a machine: ssh with the key of the Pulumi program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sandbox.site import Site

_OPTIONS = (
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
    "ConnectTimeout=10",
)


def ssh(site: Site, address: str, *options: str) -> list[str]:
    """The command that logs in to a machine as root; what runs there is put behind it.

    Args:
        site: This clone's.
        address: Public IPv4 address of the machine.
        options: More of ssh's, as after ``-o``.
    """
    chosen = [word for option in (*_OPTIONS, *options) for word in ("-o", option)]
    return ["ssh", "-i", str(site.ssh_key), *chosen, f"root@{address}"]


def public_addresses(servers: Iterable[Mapping[str, Any]]) -> dict[str, str | None]:
    """Public IPv4 addresses by server name; None for a server without.

    Args:
        servers: As the API lists them.
    """
    return {server["name"]: (server["public_net"]["ipv4"] or {}).get("ip") for server in servers}
