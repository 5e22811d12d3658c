"""Server types."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

from sandbox.cloud.api.call import Call
from sandbox.cloud.api.catalog import EUROPE, EVERYWHERE, LOCATIONS, Catalog, traffic_prices
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.errors import ApiError, InvalidInput

SoldOut = frozenset[tuple[str, str]]
_DEPRECATED = {"announced": "2024-06-06T00:00:00Z", "unavailable_after": "2024-09-06T00:00:00Z"}


@dataclass(frozen=True)
class ServerType:
    """A size of servers: ``memory`` and ``disk`` in GB, ``monthly`` in euros without tax."""

    id: int
    name: str
    cores: int
    memory: float
    disk: int
    monthly: float
    category: str
    locations: tuple[str, ...]
    architecture: Literal["x86", "arm"] = "x86"
    deprecated: bool = False

    @property
    def dedicated(self) -> bool:
        """Whether the cores are nobody else's."""
        return self.category == "General Purpose"


_SHARED = "Cost-Optimized"
_REGULAR = "Regular Performance"
_DEDICATED = "General Purpose"
_SERVER_TYPES = (
    ServerType(1, "cx11", 1, 2, 20, 3.29, _SHARED, EUROPE, deprecated=True),
    ServerType(22, "cpx11", 2, 2, 40, 3.85, _REGULAR, EVERYWHERE),
    ServerType(23, "cpx21", 3, 4, 80, 7.05, _REGULAR, EVERYWHERE),
    ServerType(24, "cpx31", 4, 8, 160, 13.10, _REGULAR, EVERYWHERE),
    ServerType(45, "cax11", 2, 4, 40, 3.29, _SHARED, EUROPE, "arm"),
    ServerType(93, "cax21", 4, 8, 80, 5.99, _SHARED, EUROPE, "arm"),
    ServerType(96, "ccx13", 2, 8, 80, 12.49, _DEDICATED, EVERYWHERE),
    ServerType(97, "ccx23", 4, 16, 160, 24.49, _DEDICATED, EVERYWHERE),
    ServerType(104, "cx22", 2, 4, 40, 3.29, _SHARED, EUROPE),
    ServerType(105, "cx32", 4, 8, 80, 5.83, _SHARED, EUROPE),
    ServerType(106, "cx42", 8, 16, 160, 14.20, _SHARED, EUROPE),
    ServerType(107, "cx52", 16, 32, 320, 28.00, _SHARED, EUROPE),
    ServerType(109, "cpx22", 2, 4, 80, 5.49, _REGULAR, EUROPE),
    ServerType(110, "cpx32", 4, 8, 160, 9.49, _REGULAR, EUROPE),
    ServerType(114, "cx23", 2, 4, 40, 2.99, _SHARED, EUROPE),
    ServerType(115, "cx33", 4, 8, 80, 4.99, _SHARED, EUROPE),
    ServerType(116, "cx43", 8, 16, 160, 8.99, _SHARED, EUROPE),
    ServerType(117, "cx53", 16, 32, 320, 16.99, _SHARED, EUROPE),
)


def server_type_wire(cloud: Cloud, server_type: ServerType) -> dict[str, Any]:
    """The server type as the API shows it; shared between answers, so not to be changed."""
    return _wire_of(server_type, cloud.sold_out)


@functools.lru_cache(maxsize=256)
def _wire_of(server_type: ServerType, sold_out: SoldOut) -> dict[str, Any]:
    deprecation = _DEPRECATED if server_type.deprecated else None
    return {
        "id": server_type.id,
        "name": server_type.name,
        "description": server_type.name.upper(),
        "category": server_type.category,
        "cores": server_type.cores,
        "memory": server_type.memory,
        "disk": server_type.disk,
        "deprecated": server_type.deprecated,
        "deprecation": deprecation,
        "prices": traffic_prices(server_type.monthly, server_type.locations, 20),
        "storage_type": "local",
        "cpu_type": "dedicated" if server_type.dedicated else "shared",
        "architecture": server_type.architecture,
        "locations": [
            {
                "id": LOCATIONS[name].id,
                "name": name,
                "deprecation": deprecation,
                "recommended": not server_type.deprecated,
                "available": _can_be_had(server_type, name, sold_out),
            }
            for name in server_type.locations
        ],
    }


def is_available(cloud: Cloud, server_type: ServerType, location: str) -> bool:
    """Whether such a server can be had there now."""
    return _can_be_had(server_type, location, cloud.sold_out)


def _can_be_had(server_type: ServerType, location: str, sold_out: SoldOut) -> bool:
    offered = not server_type.deprecated and location in server_type.locations
    return offered and (server_type.name, location) not in sold_out


def check_available(cloud: Cloud, server_type: ServerType, location: str) -> None:
    """Refuse a server that can't be had there.

    Raises:
        InvalidInput: The type is deprecated.
        ApiError: ``resource_unavailable``; there is no capacity, or never was.
    """
    if server_type.deprecated:
        raise InvalidInput({"server_type": [f"server type {server_type.id} is deprecated"]})
    if location not in server_type.locations:
        raise InvalidInput({"server_type": ["unsupported location for server type"]})
    if not is_available(cloud, server_type, location):
        raise ApiError("resource_unavailable", "error during placement")


def _wire(call: Call, server_type: ServerType) -> dict[str, Any]:
    return server_type_wire(call.cloud, server_type)


SERVER_TYPES = Catalog("server_types", "server_type", _SERVER_TYPES, _wire)
SERVER_TYPES.register()
