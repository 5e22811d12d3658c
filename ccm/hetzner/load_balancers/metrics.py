"""Metrics of load balancers."""

from __future__ import annotations

from collections import Counter

from prometheus_client import CollectorRegistry, Gauge

from ccm.cloud import ServiceView
from ccm.hetzner.load_balancers.health import STATUSES


class LoadBalancerMetrics:
    """What is counted.

    Args:
        registry: Where the metrics are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._targets = Gauge(
            "ccm_hetzner_load_balancer_targets",
            "Targets of a Service's load balancer by reported health (healthy, unhealthy, unknown).",
            ["namespace", "service", "status"],
            registry=registry,
        )
        self.vanished = Gauge(
            "ccm_hetzner_load_balancers_vanished",
            "Whether load balancers are missing so that the project may be the wrong one (1), or not (0).",
            registry=registry,
        )

    def saw(self, service: ServiceView, targets: Counter[str]) -> None:
        """How the targets of a Service are."""
        for status in STATUSES:
            self._targets.labels(service.namespace, service.name, status).set(targets[status])

    def forget(self, service: ServiceView) -> None:
        """A Service is no more."""
        for status in STATUSES:
            self._targets.remove(service.namespace, service.name, status)
