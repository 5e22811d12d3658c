"""Annotations that only count when a load balancer is made; what they say later is told, not done. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address, ip_network

from ccm.cloud import Notice, ServiceView
from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.wishes.read import Wishes
from ccm.hetzner.load_balancers.wishes.table import PREFIX


def immovable(
    service: ServiceView, wishes: Wishes, balancer: LoadBalancer | None, network: int | None
) -> Iterator[Notice]:
    """What the owner should know about where the load balancer is.

    Args:
        service: The Service.
        wishes: Its annotations.
        balancer: Its load balancer, or None.
        network: The private network, or None.
    """
    if balancer is None:
        return
    now = {
        "location": (wishes.location, balancer.location.name),
        "network-zone": (wishes.network_zone, balancer.location.network_zone),
    }
    parts = [
        f"{PREFIX}{key}: {wanted!r}, it is in {there}"
        for key, (wanted, there) in now.items()
        if wanted and there and wanted != there and PREFIX + key in service.annotations
    ]
    key = PREFIX + "private-subnet-ip-range"
    ip = next((net.ip for net in balancer.private_net if net.network == network), "")
    asked = key in service.annotations and wishes.ip_range and not wishes.private_ipv4
    if ip and asked and not _contains(wishes.ip_range, ip):
        parts.append(f"{key}: {wishes.ip_range!r}, its address is {ip}")
    if parts:
        text = (
            f"a load balancer stays where it was made: {'; '.join(parts)}; to have it elsewhere, delete it "
        )
        yield Notice("LoadBalancerNotMoved", text + "or its Service, and it is made anew")
    if is_held_elsewhere(wishes, balancer, network):
        there = ", ".join(str(net.network) for net in balancer.private_net)
        text = f"it is in network {there} and stays there for the sake of others ({PREFIX}preserve-foreign)"
        yield Notice("LoadBalancerNotMoved", text)


def is_held_elsewhere(wishes: Wishes, balancer: LoadBalancer | None, network: int | None) -> bool:
    """Whether the load balancer is in another network, where others may need it."""
    nets = [net.network for net in balancer.private_net] if balancer else []
    return wishes.preserve_foreign and bool(nets) and network is not None and network not in nets


def _contains(cidr: str, ip: str) -> bool:
    try:
        return ip_address(ip) in ip_network(cidr)
    except ValueError:
        return True  # an odd answer of the API is nothing to trouble the owner with
