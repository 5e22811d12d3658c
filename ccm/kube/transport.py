"""The connection to the API server."""

from __future__ import annotations

from ccm.kube.protocol import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Body,
    EventType,
    Page,
    PatchType,
    Transport,
    WatchEvent,
)

__all__ = [
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "Body",
    "EventType",
    "Page",
    "PatchType",
    "Transport",
    "WatchEvent",
]
