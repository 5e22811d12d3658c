"""hcloud.SshKey, PlacementGroup, Firewall, Network and LoadBalancer: a name, labels, and little else."""
# ruff: noqa: ARG002, D102  the methods are those of Kind

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_plugins.hcloud.api import Api
from pulumi_plugins.hcloud.kind import NamedKind, present, snake
from pulumi_plugins.values import Properties

_RULE = ("description", "destinationIps", "direction", "port", "protocol", "sourceIps")


class SshKey(NamedKind):
    """A public key that new servers accept."""

    inputs = frozenset({"name", "publicKey", "labels"})
    required = ("publicKey",)
    replaces = frozenset({"publicKey"})
    classic = False
    collection = "ssh_keys"
    fields = ("publicKey",)
    answered = ("fingerprint",)

    def normal(self, key: str, value: Any) -> Any:
        """A key without surrounding white space."""
        return value.strip() if key == "publicKey" and isinstance(value, str) else super().normal(key, value)

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        """The key as given, with its fingerprint."""
        given, key = str(inputs.get("publicKey", "")), found["public_key"]
        same = given.strip() == key.strip()
        return {**super().outputs(found, inputs), "publicKey": given if same else key}


class PlacementGroup(NamedKind):
    """A group of servers on different hosts."""

    inputs = frozenset({"name", "type", "labels"})
    required = ("type",)
    replaces = frozenset({"type"})
    collection = "placement_groups"
    fields = ("type",)
    answered = ("servers",)


class Firewall(NamedKind):
    """A firewall with its rules; servers name their firewalls."""

    inputs = frozenset({"name", "rules", "labels"})
    sets = frozenset({"rules"})
    collection = "firewalls"

    def body(self, inputs: Properties) -> Properties:
        rules = inputs.get("rules") or ()
        return {"rules": [{snake(key): value for key, value in rule.items() if value} for rule in rules]}

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        applied = [item["server"]["id"] for item in found.get("applied_to") or () if item["type"] == "server"]
        rules = [
            {
                name: sorted(rule.get(snake(name)) or ()) if name.endswith("Ips") else rule.get(name) or ""
                for name in _RULE
            }
            for rule in found["rules"]
        ]
        return {
            "applyTos": [{"labelSelector": "", "server": server} for server in sorted(applied)],
            "rules": sorted(rules, key=str),
        }

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        api.act(f"/firewalls/{identity}/actions/set_rules", self.body(new))


class Network(NamedKind):
    """A private network."""

    inputs = frozenset({"name", "ipRange", "labels", "deleteProtection"})
    required = ("ipRange",)
    replaces = frozenset({"ipRange"})
    collection = "networks"
    reread = True
    fields = ("ipRange",)
    answered = ("exposeRoutesToVswitch",)


class LoadBalancer(NamedKind):
    """A load balancer; its networks, targets and services are separate resources."""

    inputs = frozenset({
        "name", "loadBalancerType", "location", "labels", "deleteProtection", "ipv4Id", "ipv6Id",
    })  # fmt: skip
    required = ("loadBalancerType",)
    # Hetzner assigns Primary IPs when it creates a load balancer, and never later.
    replaces = frozenset({"location", "ipv4Id", "ipv6Id"})
    collection = "load_balancers"
    reread = True

    def body(self, inputs: Properties) -> Properties:
        addresses = present(ipv4=inputs.get("ipv4Id"), ipv6=inputs.get("ipv6Id"))
        return {
            "load_balancer_type": inputs["loadBalancerType"],
            "location": inputs.get("location"),
            "public_net": addresses or None,
        }

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        place = next(iter(found["private_net"]), {})
        addresses = found["public_net"]
        return {
            **present(ipv4Id=addresses["ipv4"].get("id"), ipv6Id=addresses["ipv6"].get("id")),
            "algorithm": {"type": found["algorithm"]["type"]},
            "ipv4": addresses["ipv4"]["ip"],
            "ipv6": addresses["ipv6"]["ip"],
            "loadBalancerType": found["load_balancer_type"]["name"],
            "location": found["location"]["name"],
            "networkId": place.get("network", 0),
            "networkIp": place.get("ip", ""),
            "networkZone": found["location"]["network_zone"],
            # as the official plugin shows targets that are separate resources
            "targets": [
                {
                    "serverId": (item.get("server") or {}).get("id", 0),
                    "type": item["type"],
                    "usePrivateIp": False,
                }
                for item in found["targets"]
            ],
        }

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        if keys != ["loadBalancerType"]:
            super().alter(api, identity, old, new, keys)
        wanted = {"load_balancer_type": new["loadBalancerType"]}
        api.act(f"/load_balancers/{identity}/actions/change_type", wanted)
