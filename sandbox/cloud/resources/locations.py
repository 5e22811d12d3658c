"""Locations, and the data centres that are no more."""

from __future__ import annotations

from sandbox.cloud.call import Call
from sandbox.cloud.catalog import LOCATIONS, Catalog, Location, find
from sandbox.cloud.errors import ApiError, InvalidInput
from sandbox.cloud.registry import operation
from sandbox.cloud.reply import Reply

LOCATION_LIST = tuple(LOCATIONS.values())
_ANNOUNCEMENT = "https://docs.hetzner.cloud/changelog#2025-12-16-phasing-out-datacenters"

Catalog("locations", "location", LOCATION_LIST, lambda _call, entry: entry.wire(), ("id", "name")).register()


def find_location(text: str, field: str = "location") -> Location:
    """A location by id or name.

    Raises:
        InvalidInput: there is none.
    """
    location = find(LOCATION_LIST, text)
    if location is None:
        raise InvalidInput({field: [f"location '{text}' not found"]})
    return location


@operation("GET", "/datacenters")
@operation("GET", "/datacenters/{id}")
async def datacenters(_call: Call) -> Reply:
    """Removed from the API in October 2026."""
    raise ApiError(
        "deprecated_api_endpoint", "API functionality was removed", {"announcement": _ANNOUNCEMENT}
    )
