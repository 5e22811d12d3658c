"""``workqueue_*``, as client-go measures queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ccm.kube.queue import QueueObserver

# 10 ns to 10 s in powers of ten, as client-go measures queues.
_QUEUE_BUCKETS = [10.0**power for power in range(-8, 2)]


class QueuesMetrics(Collector):
    """All queues: what is counted as it happens, and what is read from the queues when somebody asks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.watched: dict[str, Callable[[], list[float]]] = {}
        gauge = partial(Gauge, labelnames=["name"], registry=registry)
        counter = partial(Counter, labelnames=["name"], registry=registry)
        histogram = partial(Histogram, labelnames=["name"], buckets=_QUEUE_BUCKETS, registry=registry)
        self.depth = gauge("workqueue_depth", "Current depth of workqueue")
        self.adds = counter("workqueue_adds_total", "Total number of adds handled by workqueue")
        self.retries = counter("workqueue_retries_total", "Total number of retries handled by workqueue")
        self.waited = histogram(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested.",
        )
        self.worked = histogram(
            "workqueue_work_duration_seconds", "How long in seconds processing an item from workqueue takes."
        )
        registry.register(self)

    def observer(self, name: str) -> QueueObserver:
        """What one queue reports to."""
        return QueueObserver(
            depth=self.depth.labels(name).set,
            added=self.adds.labels(name).inc,
            started=self.waited.labels(name).observe,
            finished=self.worked.labels(name).observe,
            retried=self.retries.labels(name).inc,
        )

    def collect(self) -> Iterator[Metric]:
        """What Prometheus asks for; called on the event loop, since that is where time is."""
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work has been done that is in progress and hasn't been observed by "
            "work_duration. Large values indicate stuck threads.",
            labels=["name"],
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running.",
            labels=["name"],
        )
        for name, read in self.watched.items():
            ages = read()
            unfinished.add_metric([name], sum(ages))
            longest.add_metric([name], max(ages, default=0.0))
        yield unfinished
        yield longest
