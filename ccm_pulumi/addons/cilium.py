"""Cilium as the Pods' network, as in the tutorial that this project finishes."""

import pulumi
import pulumi_kubernetes as kubernetes

from ..cluster.pod_network import METADATA
from ..config.settings import Settings
from ..lib.helm_chart import Chart

CILIUM_VERSION = "1.18.4"


class Cilium(Chart):
    """Cilium by Helm, with the Pods' ranges from Kubernetes and the cloud's routes instead of tunnels."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        in_cluster: pulumi.ResourceOptions,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        release = {
            "name": "cilium",
            "namespace": "kube-system",
            "chart": "cilium",
            "version": CILIUM_VERSION,
            "repository_opts": {"repo": "https://helm.cilium.io"},
            # what differs from the chart's defaults
            "values": {
                "ipam": {"mode": "kubernetes"},
                "routingMode": "native",
                "ipv4NativeRoutingCIDR": str(settings.cluster_cidr),
                "operator": {"replicas": 1},
            },
            # its agents can't be ready before the cloud-controller-manager has initialized their nodes
            "skip_await": True,
        }
        super().__init__("Cilium", name, release, in_cluster, opts)


class MetadataPolicy(pulumi.ComponentResource):
    """Blocks the metadata service for Pods in all namespaces, except Pods on the host's network."""

    def __init__(
        self,
        name: str,
        in_cluster: pulumi.ResourceOptions,
        after: pulumi.Resource,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declares it after Cilium runs, whose operator creates the kind of the object."""
        super().__init__("ccm-from-scratch:index:MetadataPolicy", name, None, opts)
        inside = pulumi.ResourceOptions(parent=self, depends_on=[after])
        kubernetes.apiextensions.CustomResource(
            name,
            api_version="cilium.io/v2",
            kind="CiliumClusterwideNetworkPolicy",
            metadata={"name": "no-metadata-service"},
            # Without enableDefaultDeny a rule for a direction denies whatever no rule allows
            # (https://docs.cilium.io/en/stable/security/policy/intro/).
            spec={
                "endpointSelector": {},
                "enableDefaultDeny": {"ingress": False, "egress": False},
                "egressDeny": [
                    {
                        "toCIDR": [f"{METADATA}/32"],
                        "toPorts": [{"ports": [{"port": "80", "protocol": "TCP"}]}],
                    }
                ],
            },
            opts=pulumi.ResourceOptions.merge(in_cluster, inside),
        )
        self.register_outputs({})
