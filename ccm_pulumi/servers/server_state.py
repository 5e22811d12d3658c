"""Keeps a server running and in its subnet, with its first private address.

Hetzner gives a server the next free address if it is attached without one. The cluster uses these addresses,
so a server that was detached by hand is attached again with its previous address. One that is powered off is
powered on. Its type is changed in place if the settings change; a type that was changed by hand stays.
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pulumi
from pulumi.dynamic import CheckResult, CreateResult, ReadResult, UpdateResult

from ..lib.cloud_api import Cloud, Patience, change, everything, fetcher, power_off, read_server
from ..lib.dynamic import CloudProvider, ProviderResource, is_unknown
from ..lib.errors import CloudError, InfraError
from .network import Network

_OFF = "off"
_CHANGE_SECONDS = 1200.0
"""The timeout of a change of the type: Hetzner copies the disk, which can take minutes."""
_DONE = {
    "attach_to_network": ("server_already_attached",),
    "detach_from_network": ("server_not_attached_to_network", "invalid_input", "not_found"),
}
"""For each action, the API's error codes that mean that the action isn't necessary."""


class ServerStateProvider(CloudProvider):
    """Attaches a server to its subnet, and switches it on."""

    replaced_by = ("server_id",)
    ignored_inputs = ("ip", "subnet_range")
    """``check`` reads the address from the cloud. If the range changes, ``subnet_id`` changes, too."""

    def check(self, _olds: dict[str, Any], news: dict[str, Any]) -> CheckResult:
        """Adds the address as far as a preview can know it."""
        ip = _olds.get("ip") if _olds.get("server_id") == news["server_id"] else None
        if ip and IPv4Address(ip) not in IPv4Network(news["subnet_range"]):
            ip = None
        if not _olds and not is_unknown(news["server_id"]) and not is_unknown(news["subnet_id"]):
            # a stack of an earlier version has servers without this resource
            ip = _address(_server(self.cloud(), news["server_id"]), network_of(news))
        return CheckResult({**news, "ip": ip}, [])

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Attaches the server, with any address; one that is attached already has its address."""
        ip = settle(self.cloud(), props["server_id"], props["subnet_id"], None)
        return CreateResult(props["server_id"], {**props, "ip": ip})

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Looks whether the server runs, and is attached with its address."""
        found = _server(self.cloud(), props["server_id"])
        attached = _address(found, network_of(props)) == props["ip"]
        now = {**props, "attached": attached, "running": found.get("status") != _OFF}
        return ReadResult(id_, now, {**props, "attached": True, "running": True})

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Changes the type, and attaches the server again: with its address if the subnet has that."""
        ip = _olds["ip"] if IPv4Address(_olds["ip"]) in IPv4Network(subnet_of(_news)) else None
        # Each has the type that the program wanted and the type that the server got. If one is empty, another
        # type replaced the server.
        before, after = _olds.get("types") or (), _news.get("types") or ()
        if before and after and all(old != new for old, new in zip(before, after, strict=True)):
            change_type(self.cloud(), _news["server_id"], _news["types"][-1])
        return UpdateResult({**_news, "ip": settle(self.cloud(), _news["server_id"], _news["subnet_id"], ip)})


class ServerState(ProviderResource, provider=ServerStateProvider):
    """That a server runs in the private network."""

    ip: pulumi.Output[str]  # its private address


def state_inputs(server_id: pulumi.Input[str], network: Network) -> dict[str, pulumi.Input[Any]]:
    """Inputs of a ``ServerState``, besides the ``types`` of a server whose type is changed in place."""
    subnet = {"subnet_id": network.subnet.id, "subnet_range": network.subnet_range}
    return {"server_id": server_id, **subnet, "attached": True, "running": True}


def network_of(props: Mapping[str, Any]) -> int:
    """ID of the network that a subnet's ID begins with."""
    return int(props["subnet_id"].partition("-")[0])


def subnet_of(props: Mapping[str, Any]) -> str:
    """Range of the subnet that its ID ends with."""
    return str(props["subnet_id"].partition("-")[2])


def change_type(cloud: Cloud, server_id: str, server_type: str, patience: Patience | None = None) -> None:
    """Changes a server's type with its disk. It is off for that; Hetzner starts it afterwards."""
    patience = patience or Patience()
    server = _server(cloud, server_id)
    if not server or server["server_type"]["name"] == server_type:
        return
    path, runs = f"/servers/{server_id}/actions", server["status"] != _OFF
    if runs:
        power_off(cloud, server_id, patience)
    wanted, status = {"server_type": server_type, "upgrade_disk": True}, ""
    try:
        status = _act(cloud, f"{path}/change_type", wanted, (), patience, seconds=_CHANGE_SECONDS)
    finally:
        if runs and status != "running" and _server(cloud, server_id).get("status") == _OFF:
            _act(cloud, f"{path}/poweron", {}, (), patience)
    if status == "running":
        raise CloudError(
            cloud.endpoint,
            f"did not change the type of the server {server_id} within {_CHANGE_SECONDS:.0f} s. The server "
            "is off until Hetzner finishes the change. Then repeat the command",
        )


def settle(
    cloud: Cloud, server_id: str, subnet_id: str, ip: str | None, patience: Patience | None = None
) -> str:
    """Attaches a server to a subnet and switches it on. A server with another address is detached first.
    Without an ``ip`` it gets any address, or keeps its own. Returns the address. Fails if something else has
    ``ip``.
    """
    patience = patience or Patience()
    network, subnet_range = int(subnet_id.partition("-")[0]), subnet_id.partition("-")[2]
    path, deadline = f"/servers/{server_id}/actions", patience.now() + patience.seconds
    while True:
        server = _server(cloud, server_id)
        step = next_step(server, network, subnet_range, ip)
        if step is None:
            return str(_address(server, network))
        action, body = step
        if patience.now() >= deadline:
            raise CloudError(
                cloud.endpoint,
                f"did not complete the actions within {patience.seconds:.0f} s: server {server_id} is not "
                f"running, or not attached to network {network}",
            )
        if ip and action != "poweron" and (holder := holder_of(cloud, network, ip)):
            raise InfraError(
                f"the server {server_id} needs its private address {ip} in the network {network}, because "
                f"the cluster uses that address. But {holder} has the address now. Nothing was changed. "
                f"Detach {holder} from the network {network}, then repeat the command"
            )
        _act(cloud, f"{path}/{action}", body, _DONE.get(action, ()), patience)


def next_step(
    server: Mapping[str, Any], network: int, subnet_range: str, ip: str | None
) -> tuple[str, Mapping[str, Any]] | None:
    """The action and its body that bring a server (as the API returns it) closer to running in a network;
    None: it runs there. With an ``ip`` it gets that, otherwise any of the subnet's range.
    """
    found = _address(server, network)
    if found and ip in (None, found):
        return None if server["status"] != _OFF else ("poweron", {})
    if found:
        return "detach_from_network", {"network": network}
    where = {"ip": ip} if ip else {"ip_range": subnet_range}
    return "attach_to_network", {"network": network, **where}


def _server(cloud: Cloud, server_id: str) -> Mapping[str, Any]:
    """A server as the API returns it; nothing where it is gone."""
    return read_server(cloud, server_id) or {}


def _address(server: Mapping[str, Any], network: int) -> str | None:
    places = server.get("private_net") or ()
    return next((place["ip"] for place in places if place["network"] == network), None)


def _act(
    cloud: Cloud,
    path: str,
    body: Mapping[str, Any],
    done: tuple[str, ...],
    patience: Patience,
    *,
    seconds: float | None = None,
) -> str:
    """Begins an action, waits for ``seconds`` (default: the patience) at most, and returns its status.

    Codes of what is done already are no errors.
    """
    try:
        answer = change(cloud, "POST", path, body, patience=patience)
    except CloudError as error:
        if error.code not in done:
            raise
        return "success"
    deadline, fetch = patience.now() + (seconds or patience.seconds), fetcher(cloud)
    action = answer["action"]
    while action["status"] == "running" and patience.now() < deadline:
        patience.sleep(patience.pause)
        action = fetch(f"/actions/{action['id']}")["action"]
    if action["status"] == "error":
        raise CloudError(cloud.endpoint, f"could not finish {path}: {action['error']['message']}")
    return str(action["status"])


def holder_of(cloud: Cloud, network: int, ip: str) -> str | None:
    """The server or load balancer that has an address in a network; None if it is free."""
    fetch = fetcher(cloud)
    for collection, kind in (("servers", "the server"), ("load_balancers", "the load balancer")):
        for item in everything(fetch, collection, ""):
            if (network, ip) in {(place["network"], place["ip"]) for place in item["private_net"]}:
                return f"{kind} {item['name']} ({item['id']})"
    return None
