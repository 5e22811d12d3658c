"""Ports for servers that need a fixed port before they start."""

import socket
import sys

_HELD: list[socket.socket] = []


def free_port() -> int:
    """A port on 127.0.0.1 that, on Linux, no other process gets until this process ends.

    The kernel doesn't give a port that is bound to those who ask for any; who reuses addresses, as servers
    do, may listen on it nevertheless, as long as its holder doesn't.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port = holder.getsockname()[1]
    if sys.platform == "linux":
        _HELD.append(holder)
    else:
        holder.close()
    return port


def listens(port: int) -> bool:
    """Whether a program accepts connections on a port of 127.0.0.1."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except (ConnectionRefusedError, ConnectionResetError):  # it is reset while the program ends
        return False
    return True
