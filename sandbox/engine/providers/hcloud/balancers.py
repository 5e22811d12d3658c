"""hcloud.LoadBalancer, and what belongs to one: its network, its targets and its services."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandbox.engine.errors import ProviderError, ResourceNotFoundError
from sandbox.engine.providers.hcloud.api import Api, ApiError, GoneError
from sandbox.engine.providers.hcloud.kind import BUSY, NamedKind, Part, present
from sandbox.engine.providers.hcloud.network_parts import attachment
from sandbox.engine.values import Properties

_ATTEMPTS = 10  # a second apart
_CHECK = {
    "interval": "interval",
    "port": "port",
    "protocol": "protocol",
    "retries": "retries",
    "timeout": "timeout",
}
_HTTP = {
    "domain": "domain",
    "path": "path",
    "response": "response",
    "statusCodes": "status_codes",
    "tls": "tls",
}


class LoadBalancer(NamedKind):
    """A load balancer; what belongs to it is made by resources of its own."""

    type = "hcloud:index/loadBalancer:LoadBalancer"
    inputs = frozenset(
        {"name", "loadBalancerType", "location", "labels", "deleteProtection", "ipv4Id", "ipv6Id"}
    )
    required = ("loadBalancerType",)
    # Hetzner assigns Primary IPs when it creates a load balancer, and never later.
    replaces = frozenset({"location", "ipv4Id", "ipv6Id"})
    collection = "load_balancers"
    single = "load_balancer"
    reread = True

    def body(self, api: Api, inputs: Properties) -> Properties:  # noqa: ARG002
        """Type, place and Primary IPs."""
        addresses = present(ipv4=inputs.get("ipv4Id"), ipv6=inputs.get("ipv6Id"))
        return present(
            load_balancer_type=inputs["loadBalancerType"],
            location=inputs.get("location"),
            public_net=addresses or None,
        )

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:  # noqa: ARG002
        """The load balancer with its addresses."""
        place = next(iter(found["private_net"]), {})
        addresses = found["public_net"]
        return {
            **present(ipv4Id=addresses["ipv4"].get("id"), ipv6Id=addresses["ipv6"].get("id")),
            "algorithm": {"type": found["algorithm"]["type"]},
            "deleteProtection": found["protection"]["delete"],
            "id": str(found["id"]),
            "ipv4": addresses["ipv4"]["ip"],
            "ipv6": addresses["ipv6"]["ip"],
            "labels": found.get("labels") or {},
            "loadBalancerType": found["load_balancer_type"]["name"],
            "location": found["location"]["name"],
            "name": found["name"],
            "networkId": place.get("network", 0),
            "networkIp": place.get("ip", ""),
            "networkZone": found["location"]["network_zone"],
            "targets": [_target(item) for item in found["targets"]],
        }

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """The type."""
        if keys != ["loadBalancerType"]:
            super().alter(api, identity, old, new, keys)
        wanted = {"load_balancer_type": new["loadBalancerType"]}
        api.act(f"/load_balancers/{identity}/actions/change_type", wanted)


class _OfBalancer(Part):
    """A part of a load balancer."""

    def balancer(self, inputs: Properties) -> int:
        """Of which it is a part."""
        return int(inputs["loadBalancerId"])

    @staticmethod
    def of(identity: str) -> int:
        """Of which it is a part, by its id."""
        raise NotImplementedError

    def owner(self, inputs: Properties) -> str:
        """Its load balancer."""
        return f"/load_balancers/{self.balancer(inputs)}"

    def seen(self, balancer: Mapping[str, Any], identity: str) -> Properties | None:
        """Its outputs but for ``id``; None where the load balancer has no such part."""
        raise NotImplementedError

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """Read the load balancer and look into it."""
        found = self.seen(_balancer(api, self.of(identity)), identity)
        if found is None:
            raise ResourceNotFoundError(f"the load balancer has {identity} no more")
        return {"id": identity, **found} | self.kept(inputs)

    def kept(self, inputs: Properties) -> Properties:  # noqa: ARG002
        """Outputs that are as the inputs have them."""
        return {}


class LoadBalancerNetwork(_OfBalancer):
    """A load balancer's place in a network."""

    type = "hcloud:index/loadBalancerNetwork:LoadBalancerNetwork"
    inputs = frozenset({"loadBalancerId", "networkId", "subnetId", "ip", "enablePublicInterface"})
    required = ("loadBalancerId",)
    replaces = inputs - {"enablePublicInterface"}
    unread = frozenset({"networkId", "subnetId"})

    def normal(self, key: str, value: Any) -> Any:
        """The public interface is there unless it is switched off."""
        return value is not False if key == "enablePublicInterface" else super().normal(key, value)

    def identity(self, inputs: Properties) -> str:
        """Load balancer and network."""
        return f"{self.balancer(inputs)}-{attachment(inputs)['network']}"

    @staticmethod
    def of(identity: str) -> int:
        """Before the network."""
        return int(identity.split("-", 1)[0])

    def kept(self, inputs: Properties) -> Properties:
        """The API does not show the subnet."""
        return {"subnetId": inputs["subnetId"]} if inputs.get("subnetId") else {}

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Attach it, then switch the public interface where that is said."""
        path, body = f"{self.owner(inputs)}/actions/attach_to_network", attachment(inputs)
        _patiently(api, lambda: api.act(path, body))
        public = inputs.get("enablePublicInterface") is not False
        self._switch(api, str(self.balancer(inputs)), public=public)
        return self.read(api, self.identity(inputs), inputs)

    def seen(self, balancer: Mapping[str, Any], identity: str) -> Properties | None:
        """Its address there."""
        network = int(identity.split("-", 1)[1])
        place = next((item for item in balancer["private_net"] if item["network"] == network), None)
        if place is None:
            return None
        return {
            "enablePublicInterface": balancer["public_net"]["enabled"],
            "ip": place["ip"],
            "loadBalancerId": balancer["id"],
            "networkId": network,
        }

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:  # noqa: ARG002
        """The public interface."""
        self._switch(api, identity.split("-", 1)[0], public=new.get("enablePublicInterface") is not False)

    def delete(self, api: Api, identity: str) -> None:
        """Detach."""
        balancer, network = identity.split("-", 1)
        path = f"/load_balancers/{balancer}/actions/detach_from_network"
        _gone(api, lambda: api.act(path, {"network": int(network)}))

    def _switch(self, api: Api, balancer: str, *, public: bool) -> None:
        if _balancer(api, int(balancer))["public_net"]["enabled"] != public:
            action = "enable" if public else "disable"
            path = f"/load_balancers/{balancer}/actions/{action}_public_interface"
            _patiently(api, lambda: api.act(path))


class LoadBalancerTarget(_OfBalancer):
    """The servers that a selector of labels finds."""

    type = "hcloud:index/loadBalancerTarget:LoadBalancerTarget"
    inputs = frozenset({"loadBalancerId", "type", "labelSelector", "usePrivateIp"})
    required = ("loadBalancerId", "type", "labelSelector")
    replaces = inputs

    def identity(self, inputs: Properties) -> str:
        """As the genuine plugin makes it."""
        digest = hashlib.sha256(inputs["labelSelector"].encode()).hexdigest()
        return f"lb-label-selector-tgt-{digest}-{self.balancer(inputs)}"

    @staticmethod
    def of(identity: str) -> int:
        """At the end."""
        return int(identity.rpartition("-")[2])

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Add it.

        Raises:
            ProviderError: It is of a type that this engine does not have.
        """
        if inputs["type"] != "label_selector":
            raise ProviderError(f"targets of the type '{inputs['type']}' are not supported")
        body = {
            "type": "label_selector",
            "label_selector": {"selector": inputs["labelSelector"]},
            "use_private_ip": bool(inputs.get("usePrivateIp")),
        }
        path = f"{self.owner(inputs)}/actions/add_target"
        _patiently(api, lambda: api.act(path, body))
        return self.read(api, self.identity(inputs), inputs)

    def seen(self, balancer: Mapping[str, Any], identity: str) -> Properties | None:
        """The selector."""
        for target in balancer["targets"]:
            selector = (target.get("label_selector") or {}).get("selector", "")
            found = {"loadBalancerId": balancer["id"], "labelSelector": selector}
            if target["type"] == "label_selector" and self.identity(found) == identity:
                private = target["use_private_ip"]
                return {
                    **found,
                    "ip": None,
                    "serverId": None,
                    "type": "label_selector",
                    "usePrivateIp": private,
                }
        return None

    def delete(self, api: Api, identity: str) -> None:
        """Remove it."""
        balancer = self.of(identity)
        try:
            found = self.seen(_balancer(api, balancer), identity)
        except ResourceNotFoundError:
            return
        if found is not None:
            body = {"type": "label_selector", "label_selector": {"selector": found["labelSelector"]}}
            _gone(api, lambda: api.act(f"/load_balancers/{balancer}/actions/remove_target", body))


class LoadBalancerService(_OfBalancer):
    """A port at which it listens."""

    type = "hcloud:index/loadBalancerService:LoadBalancerService"
    inputs = frozenset({"loadBalancerId", "protocol", "listenPort", "destinationPort", "healthCheck"})
    required = ("loadBalancerId", "protocol")
    replaces = frozenset({"loadBalancerId", "listenPort"})

    def normal(self, key: str, value: Any) -> Any:
        """A check without what is empty: the API tells more than was said."""
        if key == "healthCheck" and isinstance(value, dict):
            http = {name: given for name, given in (value.get("http") or {}).items() if given}
            value = {**value, "http": http}
        return super().normal(key, value)

    def identity(self, inputs: Properties) -> str:
        """Load balancer and port."""
        return f"{self.balancer(inputs)}__{int(inputs['listenPort'])}"

    @staticmethod
    def of(identity: str) -> int:
        """Before the port."""
        return int(identity.partition("__")[0])

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Add it."""
        path = f"{self.owner(inputs)}/actions/add_service"
        _patiently(api, lambda: api.act(path, _service(inputs)))
        return self.read(api, self.identity(inputs), inputs)

    def seen(self, balancer: Mapping[str, Any], identity: str) -> Properties | None:
        """The service."""
        port = int(identity.rpartition("__")[2])
        for service in balancer["services"]:
            if service["listen_port"] == port:
                return {
                    "destinationPort": service["destination_port"],
                    "healthCheck": _shown(service["health_check"]),
                    "http": None,
                    "listenPort": port,
                    "loadBalancerId": str(balancer["id"]),
                    "protocol": service["protocol"],
                    "proxyprotocol": service["proxyprotocol"],
                }
        return None

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:  # noqa: ARG002
        """All of it."""
        path = f"/load_balancers/{identity.partition('__')[0]}/actions/update_service"
        _patiently(api, lambda: api.act(path, _service(new)))

    def delete(self, api: Api, identity: str) -> None:
        """Remove it."""
        balancer, _, port = identity.partition("__")
        body = {"listen_port": int(port)}
        _gone(api, lambda: api.act(f"/load_balancers/{balancer}/actions/delete_service", body))


def _target(target: Mapping[str, Any]) -> Properties:
    """As the official plugin shows the targets that are resources of their own."""
    server = (target.get("server") or {}).get("id", 0)
    return {"serverId": server, "type": target["type"], "usePrivateIp": False}


def _service(inputs: Properties) -> Properties:
    check = inputs.get("healthCheck") or {}
    told = {theirs: check[ours] for ours, theirs in _CHECK.items() if ours in check}
    if "http" in check:
        http = check["http"]
        told["http"] = {theirs: http[ours] for ours, theirs in _HTTP.items() if ours in http}
    return present(
        protocol=inputs["protocol"],
        listen_port=int(inputs["listenPort"]),
        destination_port=int(inputs["destinationPort"]),
        health_check=told or None,
    )


def _shown(check: Mapping[str, Any]) -> Properties:
    shown: Properties = {ours: check[theirs] for ours, theirs in _CHECK.items()}
    if check.get("http"):
        shown["http"] = {ours: check["http"].get(theirs) or "" for ours, theirs in _HTTP.items()}
        shown["http"]["tls"] = bool(check["http"].get("tls"))
        shown["http"]["statusCodes"] = list(check["http"].get("status_codes") or ())
    return shown


def _balancer(api: Api, identity: int) -> dict[str, Any]:
    return api.get(f"/load_balancers/{identity}")["load_balancer"]


def _patiently(api: Api, work: Callable[[], None]) -> None:
    api.retry(work, BUSY, _ATTEMPTS)


def _gone(api: Api, work: Callable[[], None]) -> None:
    """Removes a part; one that is gone, alone or with its load balancer, is no error."""
    try:
        _patiently(api, work)
    except GoneError:
        return
    except ApiError as error:
        if error.code not in ("invalid_input", "load_balancer_not_attached_to_network"):
            raise
