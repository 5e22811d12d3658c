"""Log lines in the format of k3s, and systemd's readiness protocol."""

import json
import os
import socket
import sys
from datetime import UTC, datetime


def info(message: str) -> None:
    """Log what happens."""
    _line("info", message)


def warning(message: str) -> None:
    """Log what differs from the request."""
    _line("warning", message)


def fatal(message: str) -> None:
    """Log why we end."""
    _line("fatal", message)


def _line(level: str, message: str) -> None:
    time = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    print(f'time="{time}" level={level} msg={json.dumps(message)}', file=sys.stderr, flush=True)


def notify(message: str) -> None:
    """Notify systemd, if it started us: ``READY=1``."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_systemd:
        to_systemd.sendto(message.encode(), address)
