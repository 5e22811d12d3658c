"""hcloud.LoadBalancer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.engine.providers.hcloud.api import Api
from sandbox.engine.providers.hcloud.kind import NamedKind, present
from sandbox.engine.values import Properties


class LoadBalancer(NamedKind):
    """A load balancer; its targets and services are resources of their own."""

    type = "hcloud:index/loadBalancer:LoadBalancer"
    inputs = frozenset({
        "name", "loadBalancerType", "location", "networkZone", "algorithm", "labels", "deleteProtection",
    })  # fmt: skip
    required = ("loadBalancerType",)
    replaces = frozenset({"location", "networkZone"})
    collection = "load_balancers"
    single = "load_balancer"

    def body(self, inputs: Properties) -> Properties:
        """Name, type, place."""
        return present(
            name=inputs["name"],
            load_balancer_type=inputs["loadBalancerType"],
            location=inputs.get("location"),
            network_zone=inputs.get("networkZone"),
            algorithm=inputs.get("algorithm"),
            labels=inputs.get("labels"),
        )

    def settled(self, answer: Mapping[str, Any], inputs: Properties) -> bool:  # noqa: ARG002
        """Its addresses show only afterwards."""
        return False

    def complete(self, api: Api, found: Mapping[str, Any], inputs: Properties) -> None:
        """Protect it where the program says so."""
        if inputs.get("deleteProtection"):
            self.protect(api, str(found["id"]), inputs)

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        """The load balancer."""
        place = next(iter(found.get("private_net") or ()), {})
        public = found.get("public_net") or {}
        return {
            "algorithm": {"type": found["algorithm"]["type"]},
            "deleteProtection": found["protection"]["delete"],
            "id": str(found["id"]),
            "ipv4": (public.get("ipv4") or {}).get("ip") or "",
            "ipv6": (public.get("ipv6") or {}).get("ip") or "",
            "labels": found.get("labels") or {},
            "loadBalancerType": found["load_balancer_type"]["name"],
            "location": found["location"]["name"],
            "name": found["name"],
            "networkId": place.get("network") or 0,
            "networkIp": place.get("ip") or "",
            "networkZone": inputs.get("networkZone") or found["location"]["network_zone"],
            "targets": [],
        }

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """Type and algorithm."""
        if "loadBalancerType" in keys:
            body = {"load_balancer_type": new["loadBalancerType"]}
            api.act(f"/load_balancers/{identity}/actions/change_type", body)
        if "algorithm" in keys:
            body = new.get("algorithm") or {"type": "round_robin"}
            api.act(f"/load_balancers/{identity}/actions/change_algorithm", body)
        super().alter(
            api, identity, old, new, [key for key in keys if key not in ("loadBalancerType", "algorithm")]
        )
