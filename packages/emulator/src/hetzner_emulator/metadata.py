"""The metadata service, which finds a machine by the address of its request."""

import json
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from aiohttp import web

from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.networks import Network, subnet_of
from hetzner_emulator.models.servers import Server, address

PREFIX = "/hetzner/v1"
GATEWAY = "172.31.1.1"
# Machines need nothing of Hetzner's vendor data; without RSA host keys they boot faster.
VENDOR_DATA = "#cloud-config\nssh_genkeytypes: [ed25519, ecdsa]\n"


def routes(cloud: Cloud) -> list[web.RouteDef]:
    """The routes of the service, which needs no token."""

    async def answer(request: web.Request) -> web.Response:
        transport = request.transport
        network = cloud.backend.network_of(transport.get_extra_info("socket")) if transport else None
        server = find_server(cloud, request.remote or "", network)
        if server is None:
            return web.Response(status=404, text="no server has this address\n")
        text = metadata(cloud, server, request.path.removeprefix(PREFIX).strip("/"))
        return web.Response(status=404, text="not found\n") if text is None else web.Response(text=text)

    return [web.get(PREFIX + "/{path:.*}", answer)]


def find_server(cloud: Cloud, peer: str, network: int | None = None) -> Server | None:
    """The server with an address; ``network`` is the ID of a private address's network."""
    for server in cloud.store.all(Server):
        if network is None:
            ipv4 = address(cloud, server.ipv4)
            found = ipv4 is not None and ipv4.ip == peer
        else:
            found = any(at.network == network and peer in (at.ip, *at.alias_ips) for at in server.attachments)
        if found:
            return server
    return None


def metadata(cloud: Cloud, server: Server, path: str) -> str | None:
    """The text at a path such as ``metadata/hostname``, or None."""
    if path == "userdata":
        return server.user_data
    if path == "metadata":
        return "".join(f"{name}: {_yaml(value(cloud, server))}\n" for name, value in _SUMMARY.items())
    if path == "metadata/private-networks":
        return private_networks(cloud, server)
    part = path.removeprefix("metadata/")
    if part == path or part not in _SUMMARY:
        return None
    value = _SUMMARY[part](cloud, server)
    return value if isinstance(value, str) else _yaml(value)


def _yaml(value: Any) -> str:
    """JSON is YAML."""
    return json.dumps(value)


def private_networks(cloud: Cloud, server: Server) -> str:
    """The attachments as a YAML list, in Hetzner's order of keys."""
    lines: list[str] = []
    for number, attachment in enumerate(server.attachments, 1):
        network = cloud.store.find(Network, attachment.network)
        if network is None or attachment.status == "attaching":
            continue
        lines += [
            f"- ip: {attachment.ip}",
            f"  alias_ips: [{', '.join(attachment.alias_ips)}]",
            f"  interface_num: {number}",
            f"  mac_address: {attachment.mac_address}",
            f"  network_id: {network.id}",
            f"  network_name: {_yaml(network.name)}",
            f"  network: {network.ip_range}",
            f"  subnet: {subnet_of(network, attachment.ip) or network.ip_range}",
            f"  gateway: {network.gateway}",
        ]
    return "".join(f"{line}\n" for line in lines) or "[]\n"


def _public_ipv4(cloud: Cloud, server: Server) -> str:
    ipv4 = address(cloud, server.ipv4)
    return ipv4.ip if ipv4 else ""


def _network_config(cloud: Cloud, server: Server) -> Mapping[str, Any]:
    """cloud-init's network configuration, version 1, of the public interface."""
    subnets: list[dict[str, Any]] = []
    if ipv4 := _public_ipv4(cloud, server):
        subnets.append({"type": "static", "address": str(IPv4Network(IPv4Address(ipv4))), "gateway": GATEWAY})
    if ipv6 := address(cloud, server.ipv6):
        subnets.append({"type": "static", "address": ipv6.ip.replace("::/", "::1/"), "gateway": "fe80::1"})
    return {"version": 1, "config": [{"type": "physical", "name": "eth0", "subnets": subnets}]}


_SUMMARY: Mapping[str, Callable[[Cloud, Server], Any]] = {
    "availability-zone": lambda _cloud, server: LOCATIONS[server.location].availability_zone,
    "hostname": lambda _cloud, server: server.name,
    "instance-id": lambda _cloud, server: server.id,
    "local-ipv4": lambda _cloud, _server: "",
    "network-config": _network_config,
    "public-ipv4": _public_ipv4,
    "public-keys": lambda _cloud, server: server.public_keys,
    "region": lambda _cloud, server: LOCATIONS[server.location].network_zone,
    "vendor_data": lambda _cloud, _server: VENDOR_DATA,
}
