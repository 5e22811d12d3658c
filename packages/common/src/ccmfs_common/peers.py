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
_LOCAL, _REMOTE, _USER, _INODE = 1, 2, 7, 9
"""Columns, https://www.kernel.org/doc/Documentation/networking/proc_net_tcp.txt."""
_NONE = "0"
"""The inode of an end that its process has closed; the user is 0 then, whoever that was (``sock_i_uid``)."""

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
        None when the kernel knows no such connection in our network namespace, or no process has that end
        any more: whose it was can't be told.
    """
    wanted = _written(client), _written(server)
    for table in tables:
        lines = table.read_text().splitlines()[1:] if table.exists() else ()
        for columns in map(str.split, lines):
            ends = tuple(columns[column].removeprefix(_MAPPED) for column in (_LOCAL, _REMOTE))
            if ends == wanted:
                return None if columns[_INODE] == _NONE else int(columns[_USER])
    return None


def _written(address: Address) -> str:
    """As the kernel writes it: the bytes of the address as one number of this processor."""
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"
