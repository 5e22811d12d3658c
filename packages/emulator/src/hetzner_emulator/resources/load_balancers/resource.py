"""Load balancers: listing, reading, renaming, deleting."""

from __future__ import annotations

from hetzner_emulator.api.resource import Resource
from hetzner_emulator.models.load_balancers import LoadBalancer, load_balancer_wire


def name_problem(name: str) -> str:
    """What is wrong with a load balancer's name, or ""."""
    return "must not begin or end with a space" if name != name.strip() else ""


LOAD_BALANCERS = Resource(
    "load_balancers",
    LoadBalancer,
    load_balancer_wire,
    name_problem=name_problem,
    protection="protected",
    delete_status=201,  # official clients expect an action since the autumn of 2026
    series={
        "open_connections": ("open_connections",),
        "connections_per_second": ("connections_per_second",),
        "requests_per_second": ("requests_per_second",),
        "bandwidth": ("bandwidth.in", "bandwidth.out"),
    },
)
LOAD_BALANCERS.register()
