"""Load balancer types with their limits."""

from __future__ import annotations

from typing import Any

from hetzner_emulator.api import offer
from hetzner_emulator.api.catalog import Catalog, traffic_prices
from hetzner_emulator.api.offer import EVERYWHERE, LoadBalancerType


def load_balancer_type_wire(kind: LoadBalancerType) -> dict[str, Any]:
    """The type as the API shows it."""
    values = {key: value for key, value in vars(kind).items() if key != "monthly"}
    prices = prices_of(kind)
    return {**values, "description": kind.name.upper(), "deprecation": None, "prices": prices}


def prices_of(kind: LoadBalancerType) -> list[dict[str, Any]]:
    """Its prices by location, as the API shows them."""
    return traffic_prices(dict.fromkeys(EVERYWHERE, kind.monthly))


LOAD_BALANCER_TYPES = Catalog(
    "load_balancer_types",
    "load_balancer_type",
    offer.LOAD_BALANCER_TYPES,
    lambda _call, entry: load_balancer_type_wire(entry),
)
LOAD_BALANCER_TYPES.register()
