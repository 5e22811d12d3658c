"""What servers have in common with other resources: listing, reading, renaming, deletion, and metrics."""

from __future__ import annotations

import re

from hetzner_emulator.api.resource import Resource
from hetzner_emulator.models.servers import Server, server_wire

_LABEL = r"[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
_HOSTNAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")

SERVERS = Resource(
    "servers",
    Server,
    server_wire,
    filters={"status": lambda _cloud, server: server.status},
    longest_name=253,  # Hetzner's document gives no number, but "a valid hostname as per RFC 1123"
    name_problem=lambda name: "" if _HOSTNAME.fullmatch(name) else "must be a valid hostname as per RFC 1123",
    protection="delete_protected",
    delete_status=200,
    of_state=True,
    series={
        "cpu": ("cpu",),
        "disk": ("disk.0.iops.read", "disk.0.iops.write", "disk.0.bandwidth.read", "disk.0.bandwidth.write"),
        "network": (
            "network.0.pps.in",
            "network.0.pps.out",
            "network.0.bandwidth.in",
            "network.0.bandwidth.out",
        ),
    },
)
SERVERS.register()
