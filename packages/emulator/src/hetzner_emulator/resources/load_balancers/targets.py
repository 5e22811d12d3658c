"""Reads targets of load balancers from requests and refuses those that can't get traffic."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from hetzner_emulator.actions.events import reaction
from hetzner_emulator.api.call import Call
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.load_balancer_targets import Target
from hetzner_emulator.models.load_balancers import LoadBalancer
from hetzner_emulator.models.networks import Network
from hetzner_emulator.models.robot_servers import robot_addresses
from hetzner_emulator.models.servers import Server
from hetzner_emulator.resources.networks.addressing import is_private
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.labels import parse_selector


def read_target(fields: Fields) -> Target:
    """A target as it is written in a request; what is wrong is collected in ``fields``."""
    kind = fields.choice("type", ("server", "label_selector", "ip"), required=True)
    private = fields.flag("use_private_ip")
    if kind == "server":
        server = fields.object("server", required=True).number("id", required=True)
        return Target("server", server=server, use_private_ip=private)
    if kind == "label_selector":
        selector = fields.object("label_selector", required=True).text(
            "selector", required=True, longest=1000
        )
        return Target("label_selector", selector=selector, use_private_ip=private)
    ip = fields.object("ip", required=True).address("ip", required=True)
    return Target("ip", ip=str(ip))


def check_target(call: Call, target: Target, balancer: LoadBalancer) -> None:
    """Refuse a target that can't get traffic, or is there already.

    Args:
        call: The request.
        target: The new one.
        balancer: Whose it shall be.

    Raises:
        ApiError: With Hetzner's code for the reason.
        InvalidInput: The label selector is none.
        NotFound: There is no such server.
    """
    if any(target.same(other) for other in balancer.targets):
        raise ApiError("target_already_defined", "target already defined")
    if target.type == "ip":
        _check_ip(call, IPv4Address(target.ip), balancer)
        return
    if target.use_private_ip and balancer.network is None:
        raise ApiError("load_balancer_not_attached_to_network", "load balancer is not attached to a network")
    if not target.use_private_ip and not balancer.public_enabled:
        text = "load balancer public interface is disabled, cannot add target using public IP"
        raise ApiError("load_balancer_public_interface_disabled", text)
    if target.type == "label_selector":
        parse_selector(target.selector)
        return
    server = call.cloud.store.get(Server, call.project, target.server or 0)
    if target.address_of(call.cloud, server, balancer.network) is None:
        where = "private" if target.use_private_ip else "public"
        reason = (
            "is not attached to the same network as the load balancer"
            if target.use_private_ip
            else "does not have a public IPv4 address"
        )
        raise ApiError(f"resolve_cloud_{where}_targets_error", f"server {server.id} {reason}")


@reaction("server_loses_ipv4")
async def keep_address(cloud: Cloud, server: Server) -> None:
    """Refuse to take the address of a target."""
    balancers = cloud.store.of(LoadBalancer, server.project)
    targets = [target for balancer in balancers for target in balancer.targets]
    if any(target.server == server.id and not target.use_private_ip for target in targets):
        raise ApiError(
            "server_is_load_balancer_target", "the server's IPv4 address is a load balancer target"
        )


def _check_ip(call: Call, ip: IPv4Address, balancer: LoadBalancer) -> None:
    if not is_private(IPv4Network(ip)):
        if str(ip) not in robot_addresses(call.cloud):
            raise ApiError("ip_not_owned", f"ip '{ip}' is not owned by the project owner")
        if not balancer.public_enabled:
            text = "the load balancer's public network interface is disabled"
            raise ApiError("load_balancer_public_interface_disabled", text)
        return
    found = call.cloud.store.find(Network, balancer.network or 0)
    if found is None:
        raise ApiError("load_balancer_not_attached_to_network", "load balancer is not attached to a network")
    ranges = [IPv4Network(subnet.ip_range) for subnet in found.subnets if subnet.type == "vswitch"]
    if not ranges:
        raise ApiError("network_has_no_vswitch_subnet", "the attached network does not have a vswitch subnet")
    if not any(ip in each for each in ranges):
        raise ApiError("ip_not_in_vswitch_subnet", f"ip '{ip}' does not belong to the vswitch subnet")
