"""Dedicated servers of the Robot, as records; they are added by an admin call."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from sandbox.cloud.cloud import Cloud
from sandbox.cloud.state.records import Record, record


@record
class RobotServer(Record):
    """A dedicated server.

    Attributes:
        ip: Its main IPv4 address.
        ipv6_net: Its /64 without the length, or None.
        product: For example ``AX41-NVMe``.
        dc: For example ``FSN1-DC14``.
        operating_status: One of ``running``, ``shut off`` and ``not supported`` (by the model).
    """

    KIND: ClassVar[str] = "robot_server"
    FIRST_ID: ClassVar[int] = 321_001

    ip: str
    ipv6_net: str | None = None
    product: str = "AX41-NVMe"
    dc: str = "FSN1-DC14"
    operating_status: str = "running"
    status: str = "ready"
    cancelled: bool = False
    subnets: list[dict[str, str]] = msgspec.field(default_factory=list)


def robot_addresses(cloud: Cloud) -> frozenset[str]:
    """The main addresses of all dedicated servers."""
    return frozenset(server.ip for server in cloud.store.all(RobotServer))
