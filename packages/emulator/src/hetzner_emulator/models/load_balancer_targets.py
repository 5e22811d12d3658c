"""Which addresses the targets of a load balancer mean, and how healthy they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.servers import Server, address, selected


class Target(msgspec.Struct, frozen=True):
    """What gets traffic: a server by id, servers by label, or an address."""

    type: str
    server: int | None = None
    selector: str = ""
    ip: str = ""
    use_private_ip: bool = False

    def same(self, other: Target) -> bool:
        """Whether both mean the same, whatever address is used."""
        return (self.type, self.server, self.selector, self.ip) == (
            other.type,
            other.server,
            other.selector,
            other.ip,
        )

    def address_of(self, cloud: Cloud, server: Server, network: int | None) -> str | None:
        """The address at which a server gets traffic through this target, or None."""
        if self.use_private_ip:
            attachment = None if network is None else server.attachment(network)
            return attachment.ip if attachment else None
        ipv4 = address(cloud, server.ipv4)
        return ipv4.ip if ipv4 else None


def selected_servers(cloud: Cloud, project: str, target: Target) -> list[Server]:
    """The servers that a target means now."""
    if target.type == "server":
        server = cloud.store.find(Server, target.server or 0)
        return [] if server is None else [server]
    if target.type == "label_selector":
        return selected(cloud, project, target.selector)
    return []


def health_of(
    cloud: Cloud, balancer: int, ports: Iterable[int], ip: str | None, server: Server | None = None
) -> list[dict[str, Any]]:
    """Health of an address by listen port, as the API shows it; of an unhealthy one also why."""
    known, failures = cloud.backend.target_health(balancer), cloud.backend.target_failures(balancer)
    off = server is not None and server.status == "off"
    shown = []
    for port in ports:
        key = (ip or "", port)
        entry = {"listen_port": port, "status": "unhealthy" if off else known.get(key, "unknown")}
        if entry["status"] == "unhealthy":
            detail, code = failures.get(key, ("layer4_timeout" if off else "unspecified", None))
            entry |= {"detail": detail} | ({} if code is None else {"http_status_code": code})
        shown.append(entry)
    return shown
