"""Locations, and the data centres that are no more."""

from __future__ import annotations

from sandbox.cloud.api.call import Call
from sandbox.cloud.api.catalog import LOCATIONS, Catalog
from sandbox.cloud.api.registry import operation
from sandbox.cloud.errors import ApiError
from sandbox.cloud.wire.reply import Reply

_ANNOUNCEMENT = "https://docs.hetzner.cloud/changelog#2025-12-16-phasing-out-datacenters"

LOCATION_CATALOG = Catalog(
    "locations", "location", tuple(LOCATIONS.values()), lambda _call, entry: entry.wire(), ("id", "name")
)
LOCATION_CATALOG.register()


@operation("GET", "/datacenters")
@operation("GET", "/datacenters/{id}")
async def datacenters(_call: Call) -> Reply:
    """Removed from the API in October 2026."""
    raise ApiError(
        "deprecated_api_endpoint", "API functionality was removed", {"announcement": _ANNOUNCEMENT}
    )
