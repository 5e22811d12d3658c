"""Load balancer types with their limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandbox.cloud.api.catalog import EVERYWHERE, Catalog, traffic_prices


@dataclass(frozen=True)
class LoadBalancerType:
    """A size of load balancers; ``monthly`` in euros without tax."""

    id: int
    name: str
    max_services: int
    max_targets: int
    max_assigned_certificates: int
    max_connections: int
    monthly: float

    def wire(self) -> dict[str, Any]:
        """As the API shows it."""
        values = {key: value for key, value in vars(self).items() if key != "monthly"}
        prices = traffic_prices(self.monthly, EVERYWHERE, 20)
        return {**values, "description": self.name.upper(), "deprecated": None, "prices": prices}


LOAD_BALANCER_TYPES = Catalog(
    "load_balancer_types",
    "load_balancer_type",
    (
        LoadBalancerType(1, "lb11", 5, 25, 10, 10_000, 5.39),
        LoadBalancerType(2, "lb21", 15, 75, 25, 20_000, 14.99),
        LoadBalancerType(3, "lb31", 30, 150, 50, 40_000, 29.99),
    ),
    lambda _call, entry: entry.wire(),
)
LOAD_BALANCER_TYPES.register()
