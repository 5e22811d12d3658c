"""An ingress controller behind a load balancer that the cloud-controller-manager makes."""

import pulumi

from ..config.settings import Settings
from ..lib.helm_chart import Chart

TRAEFIK_VERSION = "37.0.0"


class Traefik(Chart):
    """Traefik by Helm; its Service gets the load balancer, its Ingresses get the address."""

    def __init__(self, name: str, settings: Settings, in_cluster: pulumi.ResourceOptions) -> None:
        release = {
            "name": "traefik",
            "namespace": "ingress",
            "create_namespace": True,
            "chart": "traefik",
            "version": TRAEFIK_VERSION,
            "repository_opts": {"repo": "https://traefik.github.io/charts"},
            "values": traefik_values(settings),
        }
        super().__init__("Traefik", name, release, in_cluster)


def balancer_name(settings: Settings) -> str:
    """The name of its load balancer in the cloud."""
    return f"{settings.cluster_name}-ingress"


def traefik_values(settings: Settings) -> dict[str, object]:
    """What differs from the chart's defaults: where the load balancer is, and how it reaches the nodes."""
    annotations = {
        "load-balancer.hetzner.cloud/location": settings.location,
        "load-balancer.hetzner.cloud/name": balancer_name(settings),
        "load-balancer.hetzner.cloud/use-private-ip": "true",
    }
    if settings.protect:
        annotations["load-balancer.hetzner.cloud/delete-protection"] = "true"
    return {
        "ingressClass": {"enabled": True, "isDefaultClass": True},
        "providers": {"kubernetesIngress": {"publishedService": {"enabled": True}}},
        "service": {"annotations": annotations},
    }
