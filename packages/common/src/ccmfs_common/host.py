"""What the host is and has: read only, nothing is changed here."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from pathlib import Path

ROUTES = Path("/proc/net/route")
LOOK_UP_SECONDS = 5.0
WIDEST_NETWORK = 8
"""The shortest prefix of a network that somebody has. Routes to more are a default route in parts, as VPNs
make it: ``0.0.0.0/1`` and ``128.0.0.0/1``, or ``2000::/4`` and ``3000::/4``."""
# Where package managers are told their sources. A mirror may well live in a range for documentation.
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

    Those that it has routes to, its own interfaces' included, without the default route; and what lies behind
    the default route as far as it can be known: name servers, proxies and sources of packages.
    """
    try:
        routes = parse_routes(ROUTES.read_text())
    except FileNotFoundError:  # no Linux
        routes = []
    return routes + [IPv4Network(address) for address in resolve(names_in(_source_texts()))]


def names_in(texts: Iterable[str]) -> set[str]:
    """The hosts that configuration texts name in addresses (``https://…``) and as name servers."""
    return {name for text in texts for name in _NAMES.findall(text)}


def resolve(names: Iterable[str]) -> list[IPv4Address]:
    """The IPv4 addresses of hosts; one that can't be looked up in time has none."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        return [address for found in pool.map(_look_up, sorted(names)) for address in found]


def _look_up(name: str) -> list[IPv4Address]:
    # A process, because the C library's look-up has no time limit of its own.
    try:
        said = subprocess.run(
            ["getent", "ahostsv4", name], capture_output=True, text=True, check=False, timeout=LOOK_UP_SECONDS
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [address for line in said.splitlines() for address in _address(line.split()[0])]


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
    if shutil.which("go"):
        # Go's own default source, whatever it is.
        done = subprocess.run(
            ["go", "env", "GOPROXY"], capture_output=True, text=True, check=False, timeout=30
        )
        texts.append(done.stdout)
    return texts


def parse_routes(text: str) -> list[IPv4Network]:
    """Networks from the text of ``/proc/net/route`` (addresses are little-endian hexadecimal).

    Default routes are not among them, whole or in parts.
    """
    networks = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        destination, mask = (IPv4Address(int(fields[i], 16).to_bytes(4, "little")) for i in (1, 7))
        network = IPv4Network(f"{destination}/{mask}", strict=False)
        if network.prefixlen >= WIDEST_NETWORK:
            networks.append(network)
    return networks


def available_memory(proc: Path = Path("/proc")) -> int:
    """Bytes that programs can have without swapping.

    Args:
        proc: Where to look.
    """
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
