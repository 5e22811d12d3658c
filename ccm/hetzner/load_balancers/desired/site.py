"""Where a load balancer is made; annotations of that only count then, and are told later, not done. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address, ip_network

from ccm.cloud import Notice, Rejected
from ccm.hetzner.load_balancers.desired.desired import Site
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.wishes import PREFIX, Wishes


def choose_site(wishes: Wishes, facts: Facts) -> Site:
    """Where a load balancer is made.

    Raises:
        Rejected: Nothing says where.
    """
    site = Site(wishes.location, wishes.network_zone if wishes.has_site else facts.zone)
    if facts.balancer is None and site == Site():
        text = (
            f"no location is known for the load balancer: annotate the Service with {PREFIX}location or "
            f"{PREFIX}network-zone, or set HCLOUD_LOAD_BALANCERS_LOCATION"
        )
        raise Rejected(text, notices=(Notice("LoadBalancerLocationMissing", text),))
    return site


def unknown_site(wishes: Wishes, facts: Facts) -> dict[str, str]:
    """What is wrong with the place that is asked for, by annotation."""
    of_location = {one.name for one in facts.locations}
    names = of_location if wishes.location else {one.network_zone for one in facts.locations}
    chosen = wishes.location or wishes.network_zone
    if facts.balancer is not None or not chosen or chosen in names:
        return {}
    key = "location" if wishes.location else "network-zone"
    variable = f"HCLOUD_LOAD_BALANCERS_{key.upper().replace('-', '_')}"
    name = PREFIX + key if wishes.service.annotations.get(PREFIX + key, "").strip() else variable
    return {PREFIX + key: f"{name}: {chosen!r} is not one of {', '.join(sorted(names))}"}


def changes_of_immutable(wishes: Wishes, facts: Facts) -> Iterator[Notice]:
    """What the owner should know about where the load balancer is."""
    service, balancer, network = wishes.service, facts.balancer, facts.network
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
    if is_held_elsewhere(wishes, facts):
        there = ", ".join(str(net.network) for net in balancer.private_net)
        text = f"it is in network {there} and stays there for the sake of others ({PREFIX}preserve-foreign)"
        yield Notice("LoadBalancerNotMoved", text)


def is_held_elsewhere(wishes: Wishes, facts: Facts) -> bool:
    """Whether the load balancer is in another network, where others may need it."""
    nets = [net.network for net in facts.balancer.private_net] if facts.balancer else []
    return wishes.preserve_foreign and bool(nets) and facts.network is not None and facts.network not in nets


def _contains(cidr: str, ip: str) -> bool:
    try:
        return ip_address(ip) in ip_network(cidr)
    except ValueError:
        return True  # an odd answer of the API is nothing to trouble the owner with
