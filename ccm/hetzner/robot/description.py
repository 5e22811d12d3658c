"""What a Robot server looks like as the machine of a Node. Pure.

Robot does not know a server's private addresses (vSwitch). The kubelet does, so what it reported stays,
unless it would be wrong: of a family that is not reported at all, or the same as the public address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ccm.cloud.instances import EXTERNAL_IP, HOSTNAME, INTERNAL_IP, Address, Instance, NodeView
from ccm.cloud.notice import Notice
from ccm.hetzner.description import PROVIDED_BY, DescriptionOptions, chosen_ipv6, first_of
from ccm.hetzner.provider_id import MachineId, write
from ccm.hetzner.robot.client import RobotServer
from ccm.ip import parse_address

_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]")
_ZONES = {"fsn1": "eu-central", "nbg1": "eu-central", "hel1": "eu-central"}


def describe_robot(
    server: RobotServer,
    node: NodeView,
    options: DescriptionOptions,
    *,
    forward_internal: bool,
    shut_down: bool,
) -> Instance:
    """Describe a Robot server for a Node.

    Args:
        server: The server.
        node: The Node, with the addresses that the kubelet reported.
        options: What the owner chose.
        forward_internal: Keep internal addresses of the kubelet.
        shut_down: Whether it is powered off.
    """
    data_center = server.dc.lower()
    location = data_center.split("-")[0]
    if options.dialect.official:
        region, zone = location, data_center
    else:
        region, zone = _ZONES.get(location, location), location
    own_ipv6, wrong = chosen_ipv6(node.annotations)
    external = list(_external(server, options, own_ipv6))
    internal, notices = _internal(node, external, options) if forward_internal else ([], [])
    notices += wrong
    if server.name != node.name:
        notices.append(_name_differs(server, node))
    return Instance(
        provider_id=write(MachineId("robot", server.id), options.dialect.scheme),
        name=server.name,
        type=_NOT_IN_LABELS.sub("", server.product.replace(" ", "-")).strip("-_."),
        zone=zone,
        region=region,
        addresses=(Address(HOSTNAME, node.name), *external, *internal),
        labels={PROVIDED_BY: "robot"},
        shut_down=shut_down,
        notices=tuple(notices),
    )


def _external(server: RobotServer, options: DescriptionOptions, own_ipv6: str) -> Iterator[Address]:
    if options.ipv6 and server.server_ipv6_net:
        yield Address(EXTERNAL_IP, own_ipv6 or first_of(f"{server.server_ipv6_net.split('/')[0]}/64"))
    if options.ipv4 and server.server_ip:
        yield Address(EXTERNAL_IP, server.server_ip)


def _internal(
    node: NodeView, external: list[Address], options: DescriptionOptions
) -> tuple[list[Address], list[Notice]]:
    kept: list[Address] = []
    notices: list[Notice] = []
    public = {address.address for address in external}
    for address in node.addresses:
        if address.type != INTERNAL_IP:
            continue
        why = _why_not(address.address, public, options)
        if why:
            message = f"The kubelet's internal address {address.address} is left out: {why}"
            notices.append(Notice("MisconfiguredInternalIP", message))
        else:
            kept.append(address)
    return kept, notices


def _why_not(text: str, public: set[str], options: DescriptionOptions) -> str:
    if text in public:
        return "it is the external address; start the kubelet with --node-ip=<private address>"
    address = parse_address(text.partition("%")[0])  # one with a zone is an address of IPv6 to Go's CCM
    if address is None:
        return "it is no IP address"
    version = address.version
    if not (options.ipv4 if version == 4 else options.ipv6):
        return f"IPv{version} is not reported, see HCLOUD_INSTANCES_ADDRESS_FAMILY"
    return ""


def _name_differs(server: RobotServer, node: NodeView) -> Notice:
    message = (
        f"Robot calls server {server.id} {server.name!r}, the node is {node.name!r}; it "
        "was found by its provider ID and is kept. Give both the same name, other tools rely on that"
    )
    return Notice("RobotNameDiffers", message)
