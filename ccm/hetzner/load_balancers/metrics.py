"""Metrics of load balancers."""

from collections import Counter

from prometheus_client import CollectorRegistry, Gauge

from ccm.cloud import ServiceView
from ccm.hetzner.load_balancers.status import STATUSES
from ccm.hetzner.official_metrics import OfficialMetrics


class LoadBalancerMetrics:
    """The metrics; ``official`` counts calls of the controllers with the official CCM's names."""

    def __init__(self, registry: CollectorRegistry, official: OfficialMetrics) -> None:
        self.official = official
        self._targets = Gauge(
            "ccm_hetzner_load_balancer_targets",
            "The number of load balancer targets of a Service, by health (healthy, unhealthy, unknown).",
            ["namespace", "service", "status"],
            registry=registry,
        )
        self._kept = Gauge(
            "ccm_hetzner_load_balancer_targets_kept",
            "1 if a load balancer keeps its targets because no node is a valid target; otherwise 0.",
            ["namespace", "service"],
            registry=registry,
        )
        self.vanished = Gauge(
            "ccm_hetzner_load_balancers_vanished",
            "1 if all known load balancers disappeared, probably because of a wrong token; otherwise 0.",
            registry=registry,
        )

    def operation(self, name: str) -> None:
        """Count a call by the controllers, with the name of the official CCM's method."""
        self.official.operation(f"hcloud/loadBalancers.{name}")

    def saw(self, service: ServiceView, targets: Counter[str]) -> None:
        """Set the number of a Service's targets by health."""
        for status in STATUSES:
            self._targets.labels(service.namespace, service.name, status).set(targets[status])

    def keeps_targets(self, service: ServiceView, *, keeps: bool) -> None:
        """Set whether a Service keeps its targets because no Node can be a target."""
        self._kept.labels(service.namespace, service.name).set(keeps)

    def forget(self, service: ServiceView) -> None:
        """Remove the metrics of a deleted Service."""
        self._kept.remove(service.namespace, service.name)
        for status in STATUSES:
            self._targets.remove(service.namespace, service.name, status)
