"""Whose program is at the other end of a connection on loopback: the kernel's table of connections says it.

A port on 127.0.0.1 is open to every user of a host, and what is pushed runs as root on machines: not all
of them may do that.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _USER = 1, 2, 7
"""Columns, https://www.kernel.org/doc/Documentation/networking/proc_net_tcp.txt."""

_MAPPED = "0000000000000000FFFF0000"
"""Before an IPv4 address in the second table."""

Address = tuple[str, int]


def user_of(client: Address, server: Address, tables: Iterable[Path] = TABLES) -> int | None:
    """The user id of the process that made a connection.

    Args:
        client: IPv4 address and port of its end.
        server: Of the other one.
        tables: Of the kernel; one that is missing has no connections.

    Returns:
        None when the kernel knows no such connection in our network namespace.
    """
    wanted = _written(client), _written(server)
    for table in tables:
        lines = table.read_text().splitlines()[1:] if table.exists() else ()
        for columns in map(str.split, lines):
            if (
                tuple(column.removeprefix(_MAPPED) for column in (columns[_LOCAL], columns[_REMOTE]))
                == wanted
            ):
                return int(columns[_USER])
    return None


def _written(address: Address) -> str:
    """As the kernel writes it: the bytes of the address as one number of this processor."""
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"
