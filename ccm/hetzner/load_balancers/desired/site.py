"""Where a load balancer is made; later changes of that are named, not made. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address, ip_network

from ccm.cloud import Notice
from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.desired.desired import Desired, Site
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.wishes import PREFIX, Wishes


def choose_site(wishes: Wishes, facts: Facts, desired: Desired) -> Desired:
    """Choose where a load balancer is made, and its network; or tell why the one that there is stays."""
    if not facts.leads:
        return desired
    network = None if _is_held_elsewhere(wishes, facts) else facts.network
    desired = replace(desired, network=network, private_ip=wishes.private_ipv4, ip_range=wishes.ip_range)
    if facts.balancer is not None:
        return replace(desired, notices=(*desired.notices, *_not_moved(wishes, facts, facts.balancer)))
    if not wishes.has_site:
        return replace(desired, site=Site(network_zone=facts.zone))
    chosen = wishes.location or wishes.network_zone
    of_location = {one.name for one in facts.locations}
    names = of_location if wishes.location else {one.network_zone for one in facts.locations}
    problems = dict(desired.problems)
    if chosen not in names:
        key = "location" if wishes.location else "network-zone"
        variable = f"HCLOUD_LOAD_BALANCERS_{key.upper().replace('-', '_')}"
        name = PREFIX + key if wishes.service.annotations.get(PREFIX + key, "").strip() else variable
        problems[PREFIX + key] = f"{name}: {chosen!r} is not one of {', '.join(sorted(names))}"
    return replace(desired, site=Site(wishes.location, wishes.network_zone), problems=problems)


def _not_moved(wishes: Wishes, facts: Facts, balancer: LoadBalancer) -> Iterator[Notice]:
    """What the owner should know about where the load balancer is."""
    service, network = wishes.service, facts.network
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
    if _is_held_elsewhere(wishes, facts):
        there = ", ".join(str(net.network) for net in balancer.private_net)
        text = f"it is in network {there} and stays there for the sake of others ({PREFIX}preserve-foreign)"
        yield Notice("LoadBalancerNotMoved", text)


def _is_held_elsewhere(wishes: Wishes, facts: Facts) -> bool:
    """Whether the load balancer is in another network, where others may need it."""
    nets = [net.network for net in facts.balancer.private_net] if facts.balancer else []
    return wishes.preserve_foreign and bool(nets) and facts.network is not None and facts.network not in nets


def _contains(cidr: str, ip: str) -> bool:
    try:
        return ip_address(ip) in ip_network(cidr)
    except ValueError:
        return True  # an odd answer of the API is nothing to trouble the owner with
