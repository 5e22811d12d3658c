"""The data of the console page in one response."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hetzner_emulator.actions.actions import Action, action_wire
from hetzner_emulator.admin.problems import problems, target_name, title
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.certificates import Certificate, certificate_wire
from hetzner_emulator.models.firewalls import Firewall, firewall_wire
from hetzner_emulator.models.floating_ips import FloatingIp, floating_ip_wire
from hetzner_emulator.models.images import Snapshot, snapshot_wire
from hetzner_emulator.models.load_balancers import LoadBalancer, load_balancer_wire
from hetzner_emulator.models.networks import Network, network_wire
from hetzner_emulator.models.servers import Server, address
from hetzner_emulator.models.volumes import Volume, volume_wire

LATEST_REQUESTS = 150
LATEST_ACTIONS = 40


def overview(cloud: Cloud) -> dict[str, Any]:
    """All objects, sorted by name so that they keep their order, and the problems."""
    now = cloud.now()
    actions = sorted(cloud.store.all(Action), key=lambda action: action.id)[-LATEST_ACTIONS:]
    names = {server.id: server.name for server in cloud.store.all(Server)}
    shown = {
        "backend": cloud.backend.name,
        "actions_mode": cloud.action_mode,
        "quota": [
            {"project": p, "limit": cloud.limiter.limit, "remaining": cloud.limiter.remaining(p, now)}
            for p in sorted(cloud.projects)
        ],
        "servers": _by_name(_server(cloud, server) for server in cloud.store.all(Server)),
        "networks": _by_name(network_wire(cloud, network) for network in cloud.store.all(Network)),
        "load_balancers": _by_name(
            _targets_by_name(load_balancer_wire(cloud, balancer), "targets", names)
            for balancer in cloud.store.all(LoadBalancer)
        ),
        "certificates": _by_name(
            {**certificate_wire(cloud, one), "certificate": None} for one in cloud.store.all(Certificate)
        ),
        "firewalls": _by_name(
            _targets_by_name(firewall_wire(cloud, firewall), "applied_to", names)
            for firewall in cloud.store.all(Firewall)
        ),
        "volumes": _by_name(volume_wire(cloud, volume) for volume in cloud.store.all(Volume)),
        "floating_ips": _by_name(floating_ip_wire(cloud, ip) for ip in cloud.store.all(FloatingIp)),
        "images": _by_name(
            {**snapshot_wire(cloud, image), "name": image.description} for image in cloud.store.all(Snapshot)
        ),
        "actions": [
            {**action_wire(action, now), "ended": action.finished or now} for action in reversed(actions)
        ],
        "faults": cloud.faults.listing(),
        "counts": dict(sorted(cloud.requests.counts.items(), key=lambda each: each[0].split()[::-1])),
        "requests": cloud.requests.latest(LATEST_REQUESTS, lambda _entry: True),
        "total": cloud.requests.total,
    }
    return {**shown, "problems": problems(shown, now)}


def _by_name(things: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort by title with numbers as numbers: ``worker-10`` after ``worker-9``."""
    return sorted(
        ({**thing, "title": title(thing)} for thing in things), key=lambda t: (_natural(t["title"]), t["id"])
    )


def _targets_by_name(thing: dict[str, Any], field: str, names: Mapping[int, str]) -> dict[str, Any]:
    """Sort the targets of an object by name, selectors first."""

    def key(one: dict[str, Any]) -> list[tuple[int, int, str]]:
        return [] if one["type"] == "label_selector" else _natural(target_name(one, names))

    inner = [
        {**one, "targets": sorted(one["targets"], key=key)} if one.get("targets") else one
        for one in thing[field]
    ]
    return {**thing, field: sorted(inner, key=key)}


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key with numbers as numbers."""
    parts = re.split("([0-9]+)", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _server(cloud: Cloud, server: Server) -> dict[str, Any]:
    ipv4, ipv6 = address(cloud, server.ipv4), address(cloud, server.ipv6)
    return {
        **server.common_wire("status", "location"),
        "type": server.server_type,
        "ipv4": ipv4.ip if ipv4 else "",
        "ipv6": ipv6.ip if ipv6 else "",
        "private": [{"network": a.network, "ip": a.ip, "status": a.status} for a in server.attachments],
        "locked": cloud.actions.locked("server", server.id),
    }
