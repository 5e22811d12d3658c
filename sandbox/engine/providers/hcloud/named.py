"""hcloud.SshKey, PlacementGroup, Firewall and Network: a name, labels, and little else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.engine.providers.hcloud.api import Api
from sandbox.engine.providers.hcloud.kind import NamedKind, present
from sandbox.engine.values import Properties


class SshKey(NamedKind):
    """A public key that new servers accept."""

    type = "hcloud:index/sshKey:SshKey"
    inputs = frozenset({"name", "publicKey", "labels"})
    required = ("publicKey",)
    replaces = frozenset({"publicKey"})
    classic = False
    collection = "ssh_keys"
    single = "ssh_key"

    def normal(self, key: str, value: Any) -> Any:
        """A key without the white space around it."""
        return value.strip() if key == "publicKey" and isinstance(value, str) else super().normal(key, value)

    def body(self, api: Api, inputs: Properties) -> Properties:  # noqa: ARG002
        """The key."""
        return {"public_key": inputs["publicKey"]}

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        """The key with its fingerprint."""
        key = found["public_key"]
        given = str(inputs.get("publicKey", ""))
        return {
            "fingerprint": found["fingerprint"],
            "id": str(found["id"]),
            "labels": found.get("labels") or {},
            "name": found["name"],
            "publicKey": given if given.strip() == key.strip() else key,
        }


class PlacementGroup(NamedKind):
    """A group of servers on different hosts."""

    type = "hcloud:index/placementGroup:PlacementGroup"
    inputs = frozenset({"name", "type", "labels"})
    required = ("type",)
    replaces = frozenset({"type"})
    collection = "placement_groups"
    single = "placement_group"

    def body(self, api: Api, inputs: Properties) -> Properties:  # noqa: ARG002
        """The type."""
        return {"type": inputs["type"]}

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:  # noqa: ARG002
        """The group with its servers."""
        return {
            "id": str(found["id"]),
            "labels": found.get("labels") or {},
            "name": found["name"],
            "servers": list(found.get("servers") or ()),
            "type": found["type"],
        }


class Firewall(NamedKind):
    """A firewall with its rules; servers name the firewalls that they are behind."""

    type = "hcloud:index/firewall:Firewall"
    inputs = frozenset({"name", "rules", "labels"})
    sets = frozenset({"rules"})
    collection = "firewalls"
    single = "firewall"

    def body(self, api: Api, inputs: Properties) -> Properties:  # noqa: ARG002
        """The rules."""
        return {"rules": [_rule(item) for item in inputs.get("rules") or ()]}

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:  # noqa: ARG002
        """The firewall, and to which servers it is applied."""
        applied = [item["server"]["id"] for item in found.get("applied_to") or () if item["type"] == "server"]
        return {
            "applyTos": [{"labelSelector": "", "server": server} for server in sorted(applied)],
            "id": str(found["id"]),
            "labels": found.get("labels") or {},
            "name": found["name"],
            "rules": sorted(
                map(_shown, found.get("rules") or ()), key=lambda rule: list(map(str, rule.values()))
            ),
        }

    def normal(self, key: str, value: Any) -> Any:
        """Rules without what is empty, addresses without order."""
        if key == "rules" and isinstance(value, list):
            value = [_normal_rule(item) for item in value]
        return super().normal(key, value)

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:  # noqa: ARG002
        """The rules."""
        api.act(f"/firewalls/{identity}/actions/set_rules", self.body(api, new))


class Network(NamedKind):
    """A private network."""

    type = "hcloud:index/network:Network"
    inputs = frozenset({"name", "ipRange", "labels", "deleteProtection"})
    required = ("ipRange",)
    replaces = frozenset({"ipRange"})
    collection = "networks"
    single = "network"
    reread = True

    def body(self, api: Api, inputs: Properties) -> Properties:  # noqa: ARG002
        """The range."""
        return {"ip_range": inputs["ipRange"]}

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:  # noqa: ARG002
        """The network."""
        return {
            "deleteProtection": found["protection"]["delete"],
            "exposeRoutesToVswitch": bool(found.get("expose_routes_to_vswitch")),
            "id": str(found["id"]),
            "ipRange": found["ip_range"],
            "labels": found.get("labels") or {},
            "name": found["name"],
        }


def _rule(rule: Mapping[str, Any]) -> Properties:
    return present(
        direction=rule["direction"],
        protocol=rule["protocol"],
        port=rule.get("port") or None,
        source_ips=list(rule.get("sourceIps") or ()),
        destination_ips=list(rule.get("destinationIps") or ()),
        description=rule.get("description") or None,
    )


def _shown(rule: Mapping[str, Any]) -> Properties:
    """As the official plugin shows a rule; its addresses are a sorted set."""
    return {
        "description": rule.get("description") or "",
        "destinationIps": sorted(rule.get("destination_ips") or ()),
        "direction": rule["direction"],
        "port": rule.get("port") or "",
        "protocol": rule["protocol"],
        "sourceIps": sorted(rule.get("source_ips") or ()),
    }


def _normal_rule(rule: Any) -> Any:
    if not isinstance(rule, dict):
        return rule
    return {
        key: sorted(value) if isinstance(value, list) else value
        for key, value in sorted(rule.items())
        if value not in (None, "", [])
    }
