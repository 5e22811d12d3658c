"""Removes the routes to Pods from an imported network after their servers are deleted.

The cloud-controller-manager creates them, so they are not in Pulumi's state. It removes a route with its
Node, but not when the whole environment is destroyed. The stack's own network is deleted with its routes.
"""

from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Network, ip_network
from typing import Any

from ..lib.cloud_api import Cloud, Patience, change, everything, fetcher
from ..lib.dynamic import CloudProvider, ProviderResource
from ..lib.errors import CloudError


class PodRoutesProvider(CloudProvider):
    """Does nothing until it is deleted."""

    id_format = "pod-routes-{network_id}"
    replaced_by = ("network_id",)

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Removes routes of deleted servers; none if the stack keeps its servers."""
        remove_routes(self.cloud(), int(_props["network_id"]), IPv4Network(_props["cluster_cidr"]), print)


class PodRoutes(ProviderResource, provider=PodRoutesProvider):
    """The routes to the cluster's Pods in an imported network, to delete after all servers."""


def remove_routes(
    cloud: Cloud,
    network_id: int,
    cluster_cidr: IPv4Network,
    report: Callable[[str], None],
    patience: Patience | None = None,
) -> None:
    """Removes the routes that servers of the cluster have left behind. Routes cost nothing, so a
    failure doesn't stop a destroy.
    """
    try:
        network = fetcher(cloud, patience=patience)(f"/networks/{network_id}")["network"]
        servers = everything(fetcher(cloud, patience=patience), "servers", "")
    except CloudError as error:
        if error.status != 404:
            report(f"could not list the routes to Pods in the network {network_id}: {error}")
        return
    for route in dead_routes(network, cluster_cidr, servers):
        said = f"--destination {route['destination']} --gateway {route['gateway']}"
        try:
            change(cloud, "POST", f"/networks/{network_id}/actions/delete_route", route, patience=patience)
        except CloudError as error:
            report(
                f"could not remove a route to Pods: {error}. To remove the route: hcloud network "
                f"remove-route {network_id} {said}"
            )


def dead_routes(
    network: Mapping[str, Any], cluster_cidr: IPv4Network, servers: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """The routes to Pods of a cluster whose gateways are deleted servers."""
    # the route to a service that moves between servers has an alias IP as gateway
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
