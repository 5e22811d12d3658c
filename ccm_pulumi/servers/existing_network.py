"""An existing network that is imported into the stack: never changed, never deleted.

Servers can't be imported: Hetzner's API does not return their SSH keys and user data, so Pulumi would replace
them (https://github.com/hetznercloud/terraform-provider-hcloud/issues/1135).
"""

from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any

import pulumi

from ..config.setting_types import key_of
from ..config.settings import Settings
from ..lib.errors import Problem
from .nat import EVERYWHERE
from .pod_routes import dead_routes

_SUBNET_TYPE = "cloud"
# Its owner set the name, the labels and the protection.
_THEIRS = ["name", "labels", "delete_protection"]
_SHOWN = 3
"""Maximum number of conflicting subnets and routes in a message."""


def network_options(settings: Settings) -> pulumi.ResourceOptions:
    """Further options of the network."""
    return _imported(settings.import_network, _THEIRS)


def subnet_options(settings: Settings) -> pulumi.ResourceOptions:
    """Further options of the subnet."""
    identity = f"{settings.import_network}-{settings.subnet_cidr}"
    return _imported(identity if settings.import_network else "", [])


def _imported(identity: str, ignored: Sequence[str]) -> pulumi.ResourceOptions:
    if not identity:
        return pulumi.ResourceOptions()
    return pulumi.ResourceOptions(import_=identity, retain_on_delete=True, ignore_changes=[*ignored])


def network_problems(
    settings: Settings,
    network: Mapping[str, Any] | None,
    networks: Collection[int],
    servers: Sequence[Mapping[str, Any]] = (),
    *,
    has_nat: bool,
) -> list[Problem]:
    """Why the network can't be imported: it must match the settings.

    ``networks`` are those of the stack's servers. ``servers`` are all servers of the project, if the network
    has routes. With ``has_nat`` the network's default route is the stack's own.
    """
    given = settings.import_network
    if network is None:
        allowed = "the project of this token has no such network; list the networks with: hcloud network list"
        return [Problem(key_of("import_network"), given, allowed)]
    problems = []
    if others := sorted(set(networks) - {network["id"]}):
        allowed = f"this stack's servers are in the network {others[0]}, and can't move to another network"
        problems.append(Problem(key_of("import_network"), given, allowed))
    if network["ip_range"] != str(settings.network_cidr):
        allowed = f"use {network['ip_range']}, the range of the network {given}"
        problems.append(Problem(key_of("network_cidr"), str(settings.network_cidr), allowed))
    if network["id"] not in networks and not settings.kubeconfig_path:
        # later, or for an existing cluster, the routes are the cluster's own, and a range in use stays
        problems += _pod_range_problems(settings, network, servers)
    if settings.has_nat and not has_nat:
        problems += _route_problems(settings, network["routes"])
    if settings.gateway:
        problems += _gateway_problems(settings, network["routes"], has_nat=has_nat)
    return [*problems, *_subnet_problems(settings, network["subnets"])]


def _pod_range_problems(
    settings: Settings, network: Mapping[str, Any], servers: Sequence[Mapping[str, Any]]
) -> list[Problem]:
    """Conflicts with routes to Pods: Hetzner refuses a route that overlaps a subnet or another route.

    The cloud-controller-manager would take over another cluster's route to the same range. It removes routes
    of deleted servers, so these are no conflict.
    """
    pods = settings.cluster_cidr
    dead = [route["destination"] for route in dead_routes(network, pods, servers)]
    routes = [route for route in network["routes"] if route["destination"] not in (EVERYWHERE, *dead)]
    ranges = {
        **{f"the subnet {subnet['ip_range']}": subnet["ip_range"] for subnet in network["subnets"]},
        **{f"a route to {one['destination']} through {one['gateway']}": one["destination"] for one in routes},
    }
    found = [what for what, given in ranges.items() if pods.overlaps(IPv4Network(given))]
    if not found:
        return []
    shown = ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
    allowed = f"the range overlaps {shown} in the network {network['id']}; give an unused range"
    return [Problem(key_of("cluster_cidr"), str(pods), allowed)]


def _gateway_problems(
    settings: Settings, routes: Sequence[Mapping[str, Any]], *, has_nat: bool
) -> list[Problem]:
    """The user's own gateway needs the user's own route."""
    if has_nat:
        allowed = (
            "the default route still leads to this stack's NAT server, so you can't switch to your own "
            "gateway in one step. First give all servers public addresses"
        )
    elif not any(route["destination"] == EVERYWHERE for route in routes):
        allowed = (
            "the network has no default route. Add a route to the private address of the gateway: hcloud "
            f"network add-route {settings.import_network} --destination {EVERYWHERE} --gateway ADDRESS"
        )
    else:
        return []
    return [Problem(key_of("gateway"), settings.gateway.address, allowed)]


def _route_problems(settings: Settings, routes: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """A network has one default route, which its owner needs."""
    given = settings.import_network
    return [
        Problem(
            key_of("import_network"),
            given,
            f"the network {given} has a route {EVERYWHERE} to {route['gateway']}, but the route must lead to "
            f"the NAT server. Remove the settings {key_of('private_nodes')} and publicIpv4, or run: hcloud "
            f"network remove-route {given} --destination {EVERYWHERE} --gateway {route['gateway']}",
        )
        for route in routes
        if route["destination"] == EVERYWHERE
    ]


def _subnet_problems(settings: Settings, subnets: Sequence[Mapping[str, Any]]) -> list[Problem]:
    given, wanted = settings.import_network, str(settings.subnet_cidr)
    found = next((subnet for subnet in subnets if subnet["ip_range"] == wanted), None)
    if found is None:
        has = ", ".join(subnet["ip_range"] for subnet in subnets) or "none"
        add = f"hcloud network add-subnet {given} --type {_SUBNET_TYPE}"
        add += f" --network-zone {settings.network_zone} --ip-range {wanted}"
        allowed = f"the network {given} has no such subnet. Use one of its subnets ({has}), or run: {add}"
        return [Problem(key_of("subnet_cidr"), wanted, allowed)]
    problems = []
    if found["type"] != _SUBNET_TYPE:
        allowed = f"the subnet {wanted} has the type {found['type']}, but must have the type {_SUBNET_TYPE}"
        problems.append(Problem(key_of("subnet_cidr"), wanted, allowed))
    if found["network_zone"] != settings.network_zone:
        allowed = f"use {found['network_zone']}, the zone of the subnet {wanted}"
        problems.append(Problem(key_of("network_zone"), settings.network_zone, allowed))
    return problems
