"""Locations, and the data centres that are no more."""

from __future__ import annotations

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import LOCATIONS, Catalog
from hetzner_emulator.api.registry import operation
from hetzner_emulator.errors import ApiError
from hetzner_emulator.wire.reply import Reply

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
