"""Server types."""

from __future__ import annotations

import functools
from typing import Any

from hetzner_emulator.api import offer
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import LOCATIONS, Catalog, deprecation_wire, traffic_prices
from hetzner_emulator.api.offer import ServerType
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput

SoldOut = frozenset[tuple[str, str]]


def server_type_wire(cloud: Cloud, server_type: ServerType) -> dict[str, Any]:
    """The server type as the API shows it; shared between answers, so not to be changed."""
    return _wire_of(server_type, cloud.sold_out)


@functools.lru_cache(maxsize=256)
def _wire_of(server_type: ServerType, sold_out: SoldOut) -> dict[str, Any]:
    deprecation = deprecation_wire(server_type.deprecation)
    return {
        "id": server_type.id,
        "name": server_type.name,
        "description": server_type.description,
        "category": server_type.category,
        "cores": server_type.cores,
        "memory": server_type.memory,
        "disk": server_type.disk,
        "deprecation": deprecation,
        "prices": prices_of(server_type),
        "storage_type": "local",
        "cpu_type": "dedicated" if server_type.dedicated else "shared",
        "architecture": server_type.architecture,
        "locations": [
            {
                "id": LOCATIONS[name].id,
                "name": name,
                "deprecation": deprecation,
                "recommended": deprecation is None,
                "available": _can_be_had(server_type, name, sold_out),
            }
            for name in server_type.locations
        ],
    }


def prices_of(server_type: ServerType) -> list[dict[str, Any]]:
    """Its prices by location, as the API shows them."""
    return traffic_prices({name: server_type.price(name) for name in server_type.locations})


def is_available(cloud: Cloud, server_type: ServerType, location: str) -> bool:
    """Whether such a server can be had there now."""
    return _can_be_had(server_type, location, cloud.sold_out)


def _can_be_had(server_type: ServerType, location: str, sold_out: SoldOut) -> bool:
    offered = server_type.deprecation is None and location in server_type.locations
    return offered and (server_type.name, location) not in sold_out


def check_available(cloud: Cloud, server_type: ServerType, location: str) -> None:
    """Refuse a server that can't be had there.

    Raises:
        InvalidInput: The type is deprecated.
        ApiError: ``resource_unavailable``; there is no capacity, or never was.
    """
    if server_type.deprecation is not None:
        raise InvalidInput({"server_type": [f"server type {server_type.id} is deprecated"]})
    if location not in server_type.locations:
        raise InvalidInput({"server_type": ["unsupported location for server type"]})
    if not is_available(cloud, server_type, location):
        raise ApiError("resource_unavailable", "error during placement")


def _wire(call: Call, server_type: ServerType) -> dict[str, Any]:
    return server_type_wire(call.cloud, server_type)


SERVER_TYPES = Catalog(
    "server_types",
    "server_type",
    offer.SERVER_TYPES,
    _wire,
    listed=lambda server_type: server_type.deprecation is None,
)
SERVER_TYPES.register()
