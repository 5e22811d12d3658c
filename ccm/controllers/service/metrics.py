"""Metrics of the service controller, with upstream's names."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = tuple(2.0**exponent for exponent in range(15))


class ServiceMetrics:
    """The metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.host_syncs = Counter(
            "service_controller_loadbalancer_sync_total",
            "A metric counting the amount of times any load balancer has been configured, as an effect of "
            "service/node changes on the cluster",
            registry=registry,
        )
        self.node_sync_errors = Counter(
            "service_controller_nodesync_error_total",
            "A metric counting the amount of times any load balancer has been configured and errored, as an "
            "effect of node changes on the cluster",
            registry=registry,
        )
        self.node_sync_latency = Histogram(
            "service_controller_nodesync_latency_seconds",
            "A metric measuring the latency for nodesync which updates loadbalancer hosts on cluster node "
            "updates.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.host_latency = Histogram(
            "service_controller_update_loadbalancer_host_latency_seconds",
            "A metric measuring the latency of updating each load balancer's hosts.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.orphans = Gauge(
            "ccm_load_balancer_orphans",
            "The number of cloud objects that belong to deleted Services of this cluster.",
            registry=registry,
        )
