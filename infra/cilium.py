"""Cilium as the Pods' network, as in the tutorial that this project finishes."""

from __future__ import annotations

import pulumi

from .chart import Chart
from .settings import Settings

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
            "values": cilium_values(settings),
            # its agents can't be ready before the cloud-controller-manager has initialised their nodes
            "skip_await": True,
        }
        super().__init__("Cilium", name, release, in_cluster, opts)


def cilium_values(settings: Settings) -> dict[str, object]:
    """What differs from the chart's defaults."""
    return {
        "ipam": {"mode": "kubernetes"},
        "routingMode": "native",
        "ipv4NativeRoutingCIDR": str(settings.cluster_cidr),
        "operator": {"replicas": 1},
    }
