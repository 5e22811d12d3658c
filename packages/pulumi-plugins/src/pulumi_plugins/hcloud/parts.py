"""Parts of a network, a server or a load balancer: subnets, routes, attachments, targets and services."""
# ruff: noqa: ARG002, D102  the methods are those of Kind

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pulumi_plugins.errors import PartialError, ProviderError, UnsupportedError
from pulumi_plugins.hcloud.api import Api, ApiError
from pulumi_plugins.hcloud.kind import Part, present, snake
from pulumi_plugins.values import Properties

_CHECK = ("interval", "port", "protocol", "retries", "timeout")
_HTTP = ("domain", "path", "response", "statusCodes", "tls")


class NetworkSubnet(Part):
    """A subnet of a network."""

    inputs = frozenset({"networkId", "type", "networkZone", "ipRange"})
    required = ("networkId", "type", "networkZone", "ipRange")
    replaces = inputs
    owner, belongs, listed, keyed = "networks", "networkId", "subnets", "ip_range"
    actions, removed_by = ("add_subnet", "delete_subnet"), ("ip_range",)
    fields = ("type", "ipRange", "networkZone")
    answered = ("gateway", "vswitchId")

    def delete(self, api: Api, identity: str) -> None:
        """Servers that are being detached block it. If so, the network's deletion deletes the subnet."""
        try:
            super().delete(api, identity)
        except ApiError as error:
            if error.code != "service_error":
                raise


class NetworkRoute(Part):
    """A route of a network."""

    inputs = frozenset({"networkId", "destination", "gateway"})
    required = ("networkId", "destination", "gateway")
    replaces = inputs
    owner, belongs, listed, keyed = "networks", "networkId", "routes", "destination"
    actions, removed_by = ("add_route", "delete_route"), ("destination", "gateway")
    fields = ("destination", "gateway")


class _Place(Part):
    """A server or load balancer in a network."""

    listed, keyed = "private_net", "network"
    actions, removed_by = ("attach_to_network", "detach_from_network"), ("network",)
    answered: ClassVar[tuple[str, ...]] = ("ip",)

    def body(self, inputs: Properties) -> Properties:
        return attachment(inputs)

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        # the API does not show the subnet
        shown = present(networkId=found["network"], subnetId=inputs.get("subnetId") or None)
        return {**super().outputs(found, inputs), **shown}


class ServerNetwork(_Place):
    """A server in a network."""

    inputs = frozenset({"serverId", "networkId", "subnetId", "ip"})
    required = ("serverId",)
    replaces = inputs
    classic = False
    owner, belongs = "servers", "serverId"
    answered = ("ip", "aliasIps", "macAddress")


class LoadBalancerNetwork(_Place):
    """A load balancer in a network."""

    inputs = frozenset({"loadBalancerId", "networkId", "subnetId", "ip", "enablePublicInterface"})
    required = ("loadBalancerId",)
    replaces = inputs - {"enablePublicInterface"}
    unread = frozenset({"networkId", "subnetId"})
    owner, belongs = "load_balancers", "loadBalancerId"

    def normal(self, key: str, value: Any) -> Any:
        """The public interface is on by default."""
        return value is not False if key == "enablePublicInterface" else super().normal(key, value)

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Attach it, then switch the public interface if necessary."""
        outputs = super().create(api, inputs)
        try:
            self.repair(api, outputs["id"], inputs)
        except ProviderError as error:
            raise PartialError(str(error), outputs["id"], outputs) from error
        return self.read(api, outputs["id"], inputs)

    def repair(self, api: Api, identity: str, inputs: Properties) -> None:
        """Switch the public interface if necessary."""
        there = self.read(api, identity, inputs)
        if there["enablePublicInterface"] != (inputs.get("enablePublicInterface") is not False):
            self.change(api, identity, there, inputs, ["enablePublicInterface"])

    def owned(self, owner: Mapping[str, Any]) -> Properties:
        return {**super().owned(owner), "enablePublicInterface": owner["public_net"]["enabled"]}

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        action = "disable" if new.get("enablePublicInterface") is False else "enable"
        self.act(api, identity, f"{action}_public_interface")


class LoadBalancerTarget(Part):
    """The servers that a label selector finds."""

    inputs = frozenset({"loadBalancerId", "type", "labelSelector", "usePrivateIp"})
    required = ("loadBalancerId", "type", "labelSelector")
    replaces = inputs
    owner, belongs, listed = "load_balancers", "loadBalancerId", "targets"
    pattern = "lb-label-selector-tgt-{key}-{owner}"
    actions, removed_by = ("add_target", "remove_target"), ("type", "label_selector")
    fields = ("type",)
    answered = ("usePrivateIp",)

    def key(self, item: Mapping[str, Any]) -> str:
        """As in the genuine plugin."""
        return hashlib.sha256(_selector(item).encode()).hexdigest()

    def body(self, inputs: Properties) -> Properties:
        """The selector; other types of targets are not supported."""
        if inputs["type"] != "label_selector":
            raise UnsupportedError(f"targets of the type '{inputs['type']}'", "hcloud")
        return {
            "type": "label_selector",
            "label_selector": {"selector": inputs["labelSelector"]},
            "use_private_ip": bool(inputs.get("usePrivateIp")),
        }

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        unset = {"ip": None, "serverId": None}
        return {**super().outputs(found, inputs), **unset, "labelSelector": _selector(found)}


class LoadBalancerService(Part):
    """A port on which a load balancer listens."""

    inputs = frozenset({"loadBalancerId", "protocol", "listenPort", "destinationPort", "healthCheck"})
    required = ("loadBalancerId", "protocol", "listenPort", "destinationPort")
    replaces = frozenset({"loadBalancerId", "listenPort"})
    owner, belongs, listed, keyed = "load_balancers", "loadBalancerId", "services", "listen_port"
    pattern = "{owner}__{key}"
    actions, removed_by = ("add_service", "delete_service"), ("listen_port",)
    fields = ("protocol", "listenPort", "destinationPort")
    answered = ("proxyprotocol",)

    def body(self, inputs: Properties) -> Properties:
        check = dict(inputs.get("healthCheck") or {})
        if http := check.pop("http", None):
            check["http"] = {snake(name): http[name] for name in _HTTP if name in http}
        return {**super().body(inputs), **({"health_check": check} if check else {})}

    def owned(self, owner: Mapping[str, Any]) -> Properties:
        return {"loadBalancerId": str(owner["id"])}

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        check = found["health_check"]
        shown: Properties = {key: check[key] for key in _CHECK}
        if http := check.get("http"):
            shown["http"] = {name: http.get(snake(name)) or "" for name in _HTTP}
            shown["http"] |= {"tls": bool(http.get("tls")), "statusCodes": http.get("status_codes") or []}
        return {**super().outputs(found, inputs), "healthCheck": shown, "http": None}

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        self.act(api, identity, "update_service", self.body(new))


def attachment(place: Properties) -> Properties:
    """The request that attaches a server or load balancer to ``networkId``, or to ``subnetId``'s network."""
    subnet = str(place.get("subnetId") or "")
    network, _, ip_range = subnet.partition("-")
    return present(
        network=int(place.get("networkId") or network),
        ip=place.get("ip"),
        alias_ips=place.get("aliasIps"),
        ip_range=ip_range or None,
    )


def _selector(target: Mapping[str, Any]) -> str:
    return (target.get("label_selector") or {}).get("selector", "")
