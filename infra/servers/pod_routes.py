"""Takes the routes to Pods out of a network that stays, when their servers are gone.

The cloud-controller-manager makes them, so Pulumi doesn't know them. It removes one with its Node; but where
everything goes, it goes itself. A network of the stack's own takes its routes along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Network, ip_network
from typing import Any

from pulumi.dynamic import CreateResult

from ..lib.cloud_api import Cloud, Patience, change, everything, fetcher
from ..lib.dynamic import CloudProvider, ProviderResource
from ..lib.errors import CloudError


class PodRoutesProvider(CloudProvider):
    """Does nothing until it is deleted."""

    replaced_by = ("network_id",)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Notes which network, and which range."""
        return CreateResult(f"pod-routes-{props['network_id']}", dict(props))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Removes what leads nowhere: nothing where the servers are there, because the stack keeps them."""
        remove_routes(self.cloud(), int(_props["network_id"]), IPv4Network(_props["cluster_cidr"]), print)


class PodRoutes(ProviderResource, provider=PodRoutesProvider):
    """The routes of the cluster's Pods in somebody's network, as one thing to delete after all servers."""


def remove_routes(
    cloud: Cloud,
    network_id: int,
    cluster_cidr: IPv4Network,
    report: Callable[[str], None],
    patience: Patience | None = None,
) -> None:
    """Removes the routes that servers of the cluster have left behind.

    They cost nothing: none stops a destroy.

    Args:
        cloud: Where the network is.
        network_id: Which one.
        cluster_cidr: Range of the cluster's Pods.
        report: Told what is left.
        patience: With a network that somebody else is changing.
    """
    try:
        network = fetcher(cloud, patience=patience)(f"/networks/{network_id}")["network"]
        servers = everything(fetcher(cloud, patience=patience), "servers", "")
    except CloudError as error:
        if error.status != 404:
            report(f"routes to Pods may be left in the network {network_id}: {error}")
        return
    for route in dead_routes(network, cluster_cidr, servers):
        said = f"--destination {route['destination']} --gateway {route['gateway']}"
        try:
            change(cloud, "POST", f"/networks/{network_id}/actions/delete_route", route, patience=patience)
        except CloudError as error:
            report(f"a route is left: {error}. To remove it: hcloud network remove-route {network_id} {said}")


def dead_routes(
    network: Mapping[str, Any], cluster_cidr: IPv4Network, servers: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """The routes to Pods of a cluster by way of servers that are gone. Pure.

    Args:
        network: As the API gives it.
        cluster_cidr: Range of the cluster's Pods.
        servers: All of the project, as the API gives them.
    """
    # the way to a service that moves between servers leads by an alias address
    gateways = {
        ip
        for server in servers
        for at in server["private_net"]
        if at["network"] == network["id"]
        for ip in (at["ip"], *at.get("alias_ips", ()))
    }
    return [
        {"destination": route["destination"], "gateway": route["gateway"]}
        for route in network["routes"]
        if _within(route["destination"], cluster_cidr) and route["gateway"] not in gateways
    ]


def _within(destination: str, cluster_cidr: IPv4Network) -> bool:
    found = ip_network(destination)
    return isinstance(found, IPv4Network) and found.subnet_of(cluster_cidr)
