"""What is in a network, known by two ids put together: hcloud.NetworkSubnet, NetworkRoute, ServerNetwork."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sandbox.engine.errors import ResourceNotFoundError
from sandbox.engine.providers.hcloud.api import Api, ApiError, GoneError
from sandbox.engine.providers.hcloud.kind import BUSY, Part, present
from sandbox.engine.values import Properties

_SUBNET_ATTEMPTS = 20  # a second apart


class _OfNetwork(Part):
    """A part of a network, which the network's actions add and which is read with the network.

    Attributes:
        part: Its name in the API, in those of actions and, with an s more, in the network's list of them.
        key: The input that tells it from the network's others.
        fields: By input but for the network, the name in the API.
        answered: By output that is no input, the name in the API.
    """

    part: ClassVar[str]
    key: ClassVar[str]
    fields: ClassVar[Mapping[str, str]]
    answered: ClassVar[Mapping[str, str]] = {}

    def owner(self, inputs: Properties) -> str:
        """Its network."""
        return f"/networks/{int(inputs['networkId'])}"

    def identity(self, inputs: Properties) -> str:
        """The network's id and the key."""
        return f"{int(inputs['networkId'])}-{inputs[self.key]}"

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Add it, read the network."""
        path = f"{self.owner(inputs)}/actions/add_{self.part}"
        body = {field: inputs[name] for name, field in self.fields.items()}
        api.retry(lambda: api.act(path, body), ("conflict",), 5)
        return self.read(api, self.identity(inputs), inputs)

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:  # noqa: ARG002
        """Read the network and look into it."""
        owner, value = identity.split("-", 1)
        network = api.get(f"/networks/{owner}")["network"]
        field = self.fields[self.key]
        found = next((item for item in network[f"{self.part}s"] if item[field] == value), None)
        if found is None:
            raise ResourceNotFoundError(f"{identity} is not in the network any more")
        outputs = {name: found.get(field) for name, field in {**self.fields, **self.answered}.items()}
        return {**outputs, "id": identity, "networkId": network["id"]}


class NetworkSubnet(_OfNetwork):
    """A subnet of a network."""

    type = "hcloud:index/networkSubnet:NetworkSubnet"
    inputs = frozenset({"networkId", "type", "networkZone", "ipRange"})
    required = ("networkId", "type", "networkZone", "ipRange")
    replaces = inputs
    part = "subnet"
    key = "ipRange"
    fields: ClassVar = {"type": "type", "ipRange": "ip_range", "networkZone": "network_zone"}
    answered: ClassVar = {"gateway": "gateway", "vswitchId": "vswitch_id"}

    def delete(self, api: Api, identity: str) -> None:
        """Servers that are being detached hold it for a while; then it is left to the network's deletion."""
        network, ip_range = identity.split("-", 1)
        path = f"/networks/{network}/actions/delete_subnet"
        try:
            self.read(api, identity, {})
            api.retry(lambda: api.act(path, {"ip_range": ip_range}), BUSY, _SUBNET_ATTEMPTS)
        except ResourceNotFoundError:
            return
        except ApiError as error:
            if error.code != "service_error":
                raise


class NetworkRoute(_OfNetwork):
    """A route of a network."""

    type = "hcloud:index/networkRoute:NetworkRoute"
    inputs = frozenset({"networkId", "destination", "gateway"})
    required = ("networkId", "destination", "gateway")
    replaces = inputs
    part = "route"
    key = "destination"
    fields: ClassVar = {"destination": "destination", "gateway": "gateway"}

    def delete(self, api: Api, identity: str) -> None:
        """Take it out of the network, which may be gone."""
        network, destination = identity.split("-", 1)
        path = f"/networks/{network}/actions/delete_route"
        try:
            found = self.read(api, identity, {})
            body = {"destination": destination, "gateway": found["gateway"]}
            api.retry(lambda: api.act(path, body), ("conflict",), 5)
        except ResourceNotFoundError:
            return


class ServerNetwork(Part):
    """A server's place in a network."""

    type = "hcloud:index/serverNetwork:ServerNetwork"
    inputs = frozenset({"serverId", "networkId", "subnetId", "ip"})
    required = ("serverId",)
    replaces = inputs
    classic = False

    def owner(self, inputs: Properties) -> str:
        """Its server."""
        return f"/servers/{int(inputs['serverId'])}"

    def identity(self, inputs: Properties) -> str:
        """Server and network."""
        return f"{int(inputs['serverId'])}-{attachment(inputs)['network']}"

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Attach and read the server."""
        identity = self.identity(inputs)
        body = attachment(inputs)
        path = f"{self.owner(inputs)}/actions/attach_to_network"
        try:
            api.retry(lambda: api.act(path, body), (*BUSY, "no_subnet_available"), 5)
        except ApiError as error:
            if error.code != "server_already_attached":
                raise
        return self.read(api, identity, inputs)

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """Look at the server."""
        server, network = identity.split("-", 1)
        place = _place(api, server, network)
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

    def delete(self, api: Api, identity: str) -> None:
        """Detach."""
        server, network = identity.split("-", 1)
        path = f"/servers/{server}/actions/detach_from_network"
        try:
            api.retry(lambda: api.act(path, {"network": int(network)}), BUSY, 5)
        except GoneError:
            return
        except ApiError as error:
            if error.code not in ("invalid_input", "server_not_attached_to_network"):
                raise
            if _place(api, server, network) is not None:
                raise


def attachment(place: Properties) -> Properties:
    """What the API is told to plug a server or a load balancer into a network.

    Args:
        place: ``networkId`` or ``subnetId``, which begins with the network's; if given, ``ip``, ``aliasIps``.
    """
    subnet = str(place.get("subnetId") or "")
    network, _, ip_range = subnet.partition("-")
    return present(
        network=int(place.get("networkId") or network),
        ip=place.get("ip"),
        alias_ips=place.get("aliasIps"),
        ip_range=ip_range or None,
    )


def _place(api: Api, server: str, network: str) -> dict[str, Any] | None:
    """A server's place in a network as the API has it."""
    places = api.get(f"/servers/{server}")["server"]["private_net"]
    return next((item for item in places if item["network"] == int(network)), None)
