"""Reads properties of the host."""

import errno
import os
import re
import socket
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from pathlib import Path

ROUTES = Path("/proc/net/route")
LOOK_UP_SECONDS, GO_SECONDS = 5.0, 30.0
WIDEST_NETWORK = 8
"""If the prefix of a route is shorter than this length, the program treats the route as a default route. For
example, a VPN may replace the default route with ``0.0.0.0/1`` and ``128.0.0.0/1``."""
# Configuration files of package sources. A mirror can have an address of a documentation range.
SOURCES = (
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d/*",
    "/etc/pip.conf",
    "~/.config/pip/pip.conf",
    "~/.pip/pip.conf",
    "~/.config/uv/uv.toml",
    "~/.npmrc",
    "/etc/resolv.conf",
)
SOURCE_VARIABLES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "GOPROXY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_NAMES = re.compile(r"(?:https?://(?:[^/@\s]*@)?|^nameserver\s+)([\w.-]+)", re.MULTILINE)


def used_ranges() -> list[IPv4Network]:
    """Networks and addresses that the host uses.

    These are the destinations of its routes without the default route, and known addresses behind the default
    route: name servers, proxies, and package sources.
    """
    try:
        routes = parse_routes(ROUTES.read_text())
    except FileNotFoundError:  # not Linux
        routes = []
    return routes + [IPv4Network(address) for address in resolve(names_in(_source_texts()))]


def names_in(texts: Iterable[str]) -> set[str]:
    """The hosts of URLs (``https://…``) and name servers in configuration texts."""
    return {name for text in texts for name in _NAMES.findall(text)}


def resolve(names: Iterable[str]) -> list[IPv4Address]:
    """The IPv4 addresses of hosts, without those that can't be resolved in time."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        return [address for found in pool.map(_look_up, sorted(names)) for address in found]


def _look_up(name: str) -> list[IPv4Address]:
    # A process, because lookups of the C library have no timeout.
    said = _printed(["getent", "ahostsv4", name], LOOK_UP_SECONDS)
    return [address for line in said.splitlines() for address in _address(line.split()[0])]


def _printed(command: Sequence[str], seconds: float) -> str:
    """What a program prints; empty if it can't run, or doesn't end in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _address(text: str) -> list[IPv4Address]:
    try:
        return [IPv4Address(text)]
    except AddressValueError:
        return []


def _source_texts() -> list[str]:
    patterns = [Path(pattern).expanduser() for pattern in SOURCES]
    files = [file for pattern in patterns for file in pattern.parent.glob(pattern.name)]
    readable = [file for file in files if file.is_file() and os.access(file, os.R_OK)]
    texts = [file.read_text(errors="replace") for file in readable]
    texts += [os.environ.get(name, "") for name in (*SOURCE_VARIABLES, *map(str.lower, SOURCE_VARIABLES))]
    texts.append(_printed(["go", "env", "GOPROXY"], GO_SECONDS))  # Go has a default source
    return texts


def parse_routes(text: str) -> list[IPv4Network]:
    """Networks in ``/proc/net/route`` (little-endian hexadecimal), without whole or split default routes."""
    networks = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        destination, mask = (IPv4Address(int(fields[i], 16).to_bytes(4, "little")) for i in (1, 7))
        network = IPv4Network(f"{destination}/{mask}", strict=False)
        if network.prefixlen >= WIDEST_NETWORK:
            networks.append(network)
    return networks


def available_memory(proc: Path = Path("/proc")) -> int:
    """Bytes that programs can allocate without swapping; ``proc`` is the mount point of procfs."""
    lines = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


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
