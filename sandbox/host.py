"""What the host is and has: read only, nothing is changed here."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

ROUTES = Path("/proc/net/route")


def used_ranges() -> list[IPv4Network]:
    """The networks that the host has routes to, its own interfaces' included; not the default route."""
    if not ROUTES.exists():
        return []
    return parse_routes(ROUTES.read_text())


def parse_routes(text: str) -> list[IPv4Network]:
    """Networks from the text of ``/proc/net/route`` (addresses are little-endian hexadecimal)."""
    networks = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        destination, mask = (IPv4Address(int(fields[i], 16).to_bytes(4, "little")) for i in (1, 7))
        if int(mask):
            networks.append(IPv4Network(f"{destination}/{mask}", strict=False))
    return networks


def port_is_free(port: int) -> bool:
    """Whether a TCP port on 127.0.0.1 can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise
    return True


def process_matches(pid: int, words: Sequence[str]) -> bool:
    """Whether a process lives and its command line contains all the words."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return all(word in command for word in words)
