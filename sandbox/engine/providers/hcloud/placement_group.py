"""hcloud.PlacementGroup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.engine.providers.hcloud.kind import NamedKind, present
from sandbox.engine.values import Properties


class PlacementGroup(NamedKind):
    """A group of servers on different hosts."""

    type = "hcloud:index/placementGroup:PlacementGroup"
    inputs = frozenset({"name", "type", "labels"})
    required = ("type",)
    replaces = frozenset({"type"})
    collection = "placement_groups"
    single = "placement_group"

    def body(self, inputs: Properties) -> Properties:
        """Name, type, labels."""
        return present(name=inputs["name"], type=inputs["type"], labels=inputs.get("labels"))

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:  # noqa: ARG002
        """The group with its servers."""
        return {
            "id": str(found["id"]),
            "labels": found.get("labels") or {},
            "name": found["name"],
            "servers": list(found.get("servers") or ()),
            "type": found["type"],
        }
