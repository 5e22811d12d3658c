"""hcloud.Network, NetworkSubnet and NetworkRoute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.engine.errors import ResourceNotFoundError
from sandbox.engine.providers.hcloud.api import Api, ApiError, GoneError
from sandbox.engine.providers.hcloud.kind import Kind, NamedKind, present
from sandbox.engine.values import Properties

_SUBNET_ATTEMPTS = 20  # a second apart
_BUSY = ("conflict", "locked", "service_error")


class Network(NamedKind):
    """A private network."""

    type = "hcloud:index/network:Network"
    inputs = frozenset({"name", "ipRange", "labels", "deleteProtection", "exposeRoutesToVswitch"})
    required = ("ipRange",)
    replaces = frozenset({"ipRange"})
    collection = "networks"
    single = "network"

    def body(self, inputs: Properties) -> Properties:
        """Name, range, labels."""
        return present(
            name=inputs["name"],
            ip_range=inputs["ipRange"],
            labels=inputs.get("labels"),
            expose_routes_to_vswitch=inputs.get("exposeRoutesToVswitch"),
        )

    def settled(self, answer: Mapping[str, Any], inputs: Properties) -> bool:  # noqa: ARG002
        """The genuine plugin reads a network again."""
        return False

    def complete(self, api: Api, found: Mapping[str, Any], inputs: Properties) -> None:
        """Protect it where the program says so."""
        if inputs.get("deleteProtection"):
            self.protect(api, str(found["id"]), inputs)

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """Change whether routes reach a vSwitch."""
        if "exposeRoutesToVswitch" in keys:
            api.put(
                f"/networks/{identity}", {"expose_routes_to_vswitch": bool(new.get("exposeRoutesToVswitch"))}
            )
        super().alter(api, identity, old, new, [key for key in keys if key != "exposeRoutesToVswitch"])

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


class _Part(Kind):
    """Something inside a network, known by the network's id and its own range."""

    key: str

    def part(self, network: Mapping[str, Any], inputs: Properties) -> Mapping[str, Any] | None:
        """The part in the API's network."""
        raise NotImplementedError

    def outputs(self, network: Mapping[str, Any], part: Mapping[str, Any]) -> Properties:
        """Outputs."""
        raise NotImplementedError

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """Read the network and look into it."""
        given = identity.split("-", 1)
        values = {"networkId": int(given[0]), self.key: given[1]} | inputs
        network = api.get(f"/networks/{given[0]}")["network"]
        part = self.part(network, values)
        if part is None:
            raise ResourceNotFoundError(f"{identity} is not in the network any more")
        return self.outputs(network, part)

    def find(self, api: Api, inputs: Properties) -> Properties | None:
        """The part, if it came to be."""
        try:
            api.settle(f"/networks/{int(inputs['networkId'])}")
            return self.read(api, f"{inputs['networkId']}-{inputs[self.key]}", inputs)
        except ResourceNotFoundError:
            return None

    def remove(self, api: Api, identity: str, inputs: Properties, action: str, attempts: int) -> None:
        """Take the part out, repeated while something still uses it."""
        network = identity.split("-", 1)[0]
        try:
            self.read(api, identity, inputs)
            body = self.removal(inputs, identity)
            api.retry(lambda: api.act(f"/networks/{network}/actions/{action}", body), _BUSY, attempts)
        except ResourceNotFoundError:
            return

    def removal(self, inputs: Properties, identity: str) -> Properties:
        """Body of the removing action."""
        raise NotImplementedError


class NetworkSubnet(_Part):
    """A subnet of a network."""

    type = "hcloud:index/networkSubnet:NetworkSubnet"
    inputs = frozenset({"networkId", "type", "networkZone", "ipRange", "vswitchId"})
    required = ("networkId", "type", "networkZone", "ipRange")
    replaces = inputs
    key = "ipRange"

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Add it, read the network."""
        body = present(
            type=inputs["type"],
            ip_range=inputs["ipRange"],
            network_zone=inputs["networkZone"],
            vswitch_id=inputs.get("vswitchId"),
        )
        path = f"/networks/{inputs['networkId']}/actions/add_subnet"
        api.retry(lambda: api.act(path, body), ("conflict", "vswitch_id_already_used"), 5)
        return self.read(api, f"{inputs['networkId']}-{inputs['ipRange']}", inputs)

    def part(self, network: Mapping[str, Any], inputs: Properties) -> Mapping[str, Any] | None:
        """By its range."""
        return next((item for item in network["subnets"] if item["ip_range"] == inputs["ipRange"]), None)

    def outputs(self, network: Mapping[str, Any], part: Mapping[str, Any]) -> Properties:
        """The subnet."""
        return {
            "gateway": part["gateway"],
            "id": f"{network['id']}-{part['ip_range']}",
            "ipRange": part["ip_range"],
            "networkId": network["id"],
            "networkZone": part["network_zone"],
            "type": part["type"],
            "vswitchId": part.get("vswitch_id"),
        }

    def removal(self, inputs: Properties, identity: str) -> Properties:
        """By its range."""
        return {"ip_range": inputs.get("ipRange") or identity.split("-", 1)[1]}

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:
        """Servers that are being detached hold it for a while; then it is left to the network's deletion."""
        try:
            self.remove(api, identity, inputs, "delete_subnet", _SUBNET_ATTEMPTS)
        except ApiError as error:
            if error.code != "service_error":
                raise


class NetworkRoute(_Part):
    """A route of a network."""

    type = "hcloud:index/networkRoute:NetworkRoute"
    inputs = frozenset({"networkId", "destination", "gateway"})
    required = ("networkId", "destination", "gateway")
    replaces = inputs
    key = "destination"

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Add it."""
        body = {"destination": inputs["destination"], "gateway": inputs["gateway"]}
        api.retry(
            lambda: api.act(f"/networks/{inputs['networkId']}/actions/add_route", body), ("conflict",), 5
        )
        return self._outputs(inputs["networkId"], body)

    @staticmethod
    def _outputs(network: int, part: Mapping[str, Any]) -> Properties:
        return {
            "destination": part["destination"],
            "gateway": part["gateway"],
            "id": f"{network}-{part['destination']}",
            "networkId": network,
        }

    def part(self, network: Mapping[str, Any], inputs: Properties) -> Mapping[str, Any] | None:
        """By its destination."""
        return next(
            (item for item in network["routes"] if item["destination"] == inputs["destination"]), None
        )

    def outputs(self, network: Mapping[str, Any], part: Mapping[str, Any]) -> Properties:
        """The route."""
        return self._outputs(network["id"], part)

    def removal(self, inputs: Properties, identity: str) -> Properties:
        """By destination and gateway."""
        return {
            "destination": inputs.get("destination") or identity.split("-", 1)[1],
            "gateway": inputs["gateway"],
        }

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:
        """Remove it."""
        self.remove(api, identity, inputs, "delete_route", 5)


class ServerNetwork(Kind):
    """A server's place in a network."""

    type = "hcloud:index/serverNetwork:ServerNetwork"
    inputs = frozenset({"serverId", "networkId", "subnetId", "ip", "aliasIps"})
    required = ("serverId",)
    replaces = frozenset({"serverId", "networkId", "subnetId", "ip"})
    sets = frozenset({"aliasIps"})
    classic = False

    def _network(self, inputs: Properties) -> int:
        if inputs.get("networkId") is not None:
            return int(inputs["networkId"])
        return int(str(inputs["subnetId"]).split("-", 1)[0])

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Attach and read the server."""
        server, network = int(inputs["serverId"]), self._network(inputs)
        subnet = inputs.get("subnetId")
        body = present(
            network=network,
            ip=inputs.get("ip"),
            alias_ips=inputs.get("aliasIps"),
            ip_range=str(subnet).split("-", 1)[1] if subnet else None,
        )
        path = f"/servers/{server}/actions/attach_to_network"
        try:
            api.retry(lambda: api.act(path, body), (*_BUSY, "no_subnet_available"), 5)
        except ApiError as error:
            if error.code != "server_already_attached":
                raise
        return self.read(api, f"{server}-{network}", inputs)

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """Look at the server."""
        server, network = identity.split("-", 1)
        found = api.get(f"/servers/{server}")["server"]
        place = next((item for item in found["private_net"] if item["network"] == int(network)), None)
        if place is None:
            raise ResourceNotFoundError(f"server {server} is not in network {network} any more")
        outputs = {
            "aliasIps": list(place.get("alias_ips") or ()),
            "id": identity,
            "ip": place["ip"],
            "macAddress": place["mac_address"],
            "networkId": int(network),
            "serverId": int(server),
        }
        return outputs | ({"subnetId": inputs["subnetId"]} if inputs.get("subnetId") else {})

    def find(self, api: Api, inputs: Properties) -> Properties | None:
        """The place, if it came to be."""
        try:
            api.settle(f"/servers/{int(inputs['serverId'])}")
            return self.read(api, f"{inputs['serverId']}-{self._network(inputs)}", inputs)
        except ResourceNotFoundError:
            return None

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:  # noqa: ARG002
        """Change the alias addresses."""
        server, network = identity.split("-", 1)
        body = {"network": int(network), "alias_ips": new.get("aliasIps") or []}
        api.act(f"/servers/{server}/actions/change_alias_ips", body)

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:  # noqa: ARG002
        """Detach."""
        server, network = identity.split("-", 1)
        path = f"/servers/{server}/actions/detach_from_network"
        try:
            api.retry(lambda: api.act(path, {"network": int(network)}), _BUSY, 5)
        except GoneError:
            return
        except ApiError as error:
            if error.code not in ("invalid_input", "server_not_attached_to_network"):
                raise
            if any(
                item["network"] == int(network)
                for item in api.get(f"/servers/{server}")["server"]["private_net"]
            ):
                raise
