"""Dedicated servers of Robot, which load balancers can have as targets; an admin call adds them."""

from typing import Any, ClassVar

import msgspec

from hetzner_emulator.cloud import Cloud
from hetzner_emulator.state.records import Record, record


@record
class RobotServer(Record):
    """A dedicated server."""

    KIND: ClassVar[str] = "robot_server"
    FIRST_ID: ClassVar[int] = 321_001

    ip: str  # its main IPv4 address
    ipv6_net: str | None = None  # its /64 without the length, or None
    product: str = "AX41-NVMe"  # for example `AX41-NVMe`
    dc: str = "FSN1-DC14"  # for example `FSN1-DC14`
    operating_status: str = "running"  # one of `running`, `shut off` and `not supported` (by the model)
    status: str = "ready"
    cancelled: bool = False
    subnets: list[dict[str, str]] = msgspec.field(default_factory=list)


def robot_addresses(cloud: Cloud) -> frozenset[str]:
    """The main addresses of all dedicated servers."""
    return frozenset(server.ip for server in cloud.store.all(RobotServer))


def robot_wire(server: RobotServer) -> dict[str, Any]:
    """The server as Robot's web service shows it."""
    return {
        "server_ip": server.ip,
        "server_ipv6_net": server.ipv6_net,
        "server_number": server.id,
        "server_name": server.name,
        "product": server.product,
        "dc": server.dc,
        "traffic": "unlimited",
        "status": server.status,
        "cancelled": server.cancelled,
        "paid_until": "2027-01-01",
        "ip": [server.ip],
        "subnet": server.subnets or None,
    }
