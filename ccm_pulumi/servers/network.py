"""The private network and the servers' subnet in it."""

from collections.abc import Mapping

import pulumi
import pulumi_hcloud as hcloud

from ..config.settings import Settings
from .existing_network import network_options, subnet_options
from .pod_routes import PodRoutes

# The official plugin would reset a value that was set in Hetzner's Console.
_IGNORED = ("expose_routes_to_vswitch",)


class Network(pulumi.ComponentResource):
    """A network with one subnet of type cloud; both may be there already."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        labels: Mapping[str, str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ccm-from-scratch:index:Network", name, None, opts)
        # its subnets and routes are deleted with it
        self.network = hcloud.Network(
            name,
            name=settings.cluster_name,
            ip_range=str(settings.network_cidr),
            labels=dict(labels),
            # False, not None: with None, the official plugin keeps an existing protection
            delete_protection=settings.protect,
            opts=pulumi.ResourceOptions.merge(
                pulumi.ResourceOptions(parent=self, delete_before_replace=True, ignore_changes=[*_IGNORED]),
                network_options(settings),
            ),
        )
        self.id: pulumi.Output[str] = self.network.id  # a text, as the Secret ``hcloud`` needs it
        self.subnet_range = str(settings.subnet_cidr)
        # servers are attached by its ID, because otherwise Hetzner takes the last subnet
        self.subnet = hcloud.NetworkSubnet(
            name,
            network_id=self.network.id.apply(int),
            type="cloud",
            network_zone=settings.network_zone,
            ip_range=self.subnet_range,
            # Deleting a network detaches its load balancers and deletes its subnets. Deleting the subnet
            # first would wait up to twenty minutes for a load balancer of another owner.
            opts=pulumi.ResourceOptions.merge(
                pulumi.ResourceOptions(parent=self, deleted_with=self.network, delete_before_replace=True),
                subnet_options(settings),
            ),
        )
        # created before servers, and deleted after them
        self.before_servers: list[pulumi.Resource] = [self.network]
        if settings.import_network:
            mine = pulumi.ResourceOptions(parent=self)
            ours = {"network_id": self.id, "cluster_cidr": str(settings.cluster_cidr)}
            self.before_servers.append(PodRoutes(name, mine, **ours))
        self.register_outputs({"id": self.id})
