"""Finds the user of the peer of a loopback connection in the kernel's table of connections.

Every user of a host can connect to a port on 127.0.0.1, but pushed images run as root on machines, so not
every user is allowed to push.
"""

import socket
import sys
from collections.abc import Iterable
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _USER, _INODE = 1, 2, 7, 9
"""Columns, https://www.kernel.org/doc/Documentation/networking/proc_net_tcp.txt."""
_NONE = "0"
"""The inode of a closed socket. Its UID is also 0, not the owner's (``sock_i_uid`` in the kernel)."""

_MAPPED = "0000000000000000FFFF0000"
"""The prefix of IPv4 addresses in ``/proc/net/tcp6``."""

Address = tuple[str, int]


def user_of(client: Address, server: Address, tables: Iterable[Path] = TABLES) -> int | None:
    """The user ID of the process that opened a connection, which two IPv4 addresses and ports identify.

    None if our network namespace has no such connection, or the process has closed its end.
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
    """The kernel's notation: the bytes of the address as a number in native byte order."""
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"
