"""Upstream's metrics that belong to no controller: queues, API requests, leadership, process."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from ccm.kube.http import Call
from ccm.kube.queue import QueueStatistics, WorkQueue
from ccm.kube.ratelimit import RetryLimiter

MANAGER = "cloud-controller-manager"
# 10 ns to 10 s in powers of ten, as client-go measures queues.
_QUEUE_BUCKETS = [10.0**power for power in range(-8, 2)]
_REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)


class Metrics:
    """Metrics of this process on one registry.

    Args:
        version: of this program.
    """

    def __init__(self, version: str) -> None:
        # Upstream has no "_created" series; they would double the number of counters.
        disable_created_metrics()
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._queues = _Queues(self.registry)
        self._requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ["code", "method", "host"],
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            ["verb", "host"],
            buckets=_REQUEST_BUCKETS,
            registry=self.registry,
        )
        self._limiter_seconds = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            ["verb", "host"],
            buckets=_REQUEST_BUCKETS,
            registry=self.registry,
        )
        self._leading = Gauge(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 master.",
            ["name"],
            registry=self.registry,
        )
        self._slow_paths = Counter(
            "leader_election_slowpath_total",
            "Total number of slow path exercised in renewing leader leases.",
            ["name"],
            registry=self.registry,
        )
        self._running = Gauge(
            "running_managed_controllers",
            "Indicates where instances of a controller are currently running",
            ["name", "manager"],
            registry=self.registry,
        )
        build = Gauge(
            "kubernetes_build_info",
            "A metric with a constant '1' value labeled by version and platform of this program.",
            ["git_version", "platform", "python_version"],
            registry=self.registry,
        )
        machine = f"{platform.system().lower()}/{platform.machine()}"
        build.labels(f"v{version}", machine, platform.python_version()).set(1)

    def queue(self, name: str, limiter: RetryLimiter | None = None) -> WorkQueue:
        """A work queue that is measured under this name.

        Args:
            name: the label's value.
            limiter: how long failed keys wait; client-go's default if not given.
        """
        queue = WorkQueue(name, limiter=limiter, observer=self._queues.observer(name))
        self._queues.watched[name] = queue.statistics
        return queue

    def longest_work(self) -> dict[str, float]:
        """By queue, for how many seconds the oldest key that is worked on has been."""
        return {name: read().longest_processing for name, read in self._queues.watched.items()}

    def request(self, call: Call) -> None:
        """What transports report to."""
        self._requests.labels(call.status, call.verb, call.host).inc()
        self._request_seconds.labels(call.verb, call.host).observe(call.seconds)
        self._limiter_seconds.labels(call.verb, call.host).observe(call.waited)

    def running(self, name: str, *, running: bool) -> None:
        """A controller (by its old name, as upstream) started or ended."""
        self._running.labels(name, MANAGER).set(1 if running else 0)

    def lease(self, name: str) -> LeaseMetrics:
        """What leader election by this lease reports to."""
        return LeaseMetrics(self._leading.labels(name), self._slow_paths.labels(name))


class LeaseMetrics:
    """Leadership of one lease."""

    def __init__(self, leading: Gauge, slow_paths: Counter) -> None:
        self._leading = leading
        self._slow_paths = slow_paths
        self._leading.set(0)

    def leading(self, leading: bool) -> None:  # noqa: FBT001 - the only fact
        """Whether we lead changed."""
        self._leading.set(1 if leading else 0)

    def slow_path(self) -> None:
        """A renewal had to read the lease again."""
        self._slow_paths.inc()


class _Queues(Collector):
    """`workqueue_*`: what is counted as it happens, and what is read from the queues when somebody asks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.watched: dict[str, Callable[[], QueueStatistics]] = {}
        self.depth = _gauge(registry, "workqueue_depth", "Current depth of workqueue")
        self.adds = _counter(registry, "workqueue_adds_total", "Total number of adds handled by workqueue")
        self.retries = _counter(
            registry, "workqueue_retries_total", "Total number of retries handled by workqueue"
        )
        self.waited = _histogram(
            registry,
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested.",
        )
        self.worked = _histogram(
            registry,
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
        )
        registry.register(self)

    def observer(self, name: str) -> _QueueMetrics:
        """What one queue reports to."""
        return _QueueMetrics(self, name)

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
            statistics = read()
            unfinished.add_metric([name], statistics.unfinished)
            longest.add_metric([name], statistics.longest_processing)
        yield unfinished
        yield longest


class _QueueMetrics:
    """One queue; implements `QueueObserver`."""

    def __init__(self, queues: _Queues, name: str) -> None:
        self._depth = queues.depth.labels(name)
        self._adds = queues.adds.labels(name)
        self._retries = queues.retries.labels(name)
        self._waited = queues.waited.labels(name)
        self._worked = queues.worked.labels(name)

    def depth(self, waiting: int) -> None:
        self._depth.set(waiting)

    def added(self) -> None:
        self._adds.inc()

    def started(self, waited: float) -> None:
        self._waited.observe(waited)

    def finished(self, worked: float) -> None:
        self._worked.observe(worked)

    def retried(self) -> None:
        self._retries.inc()


def _gauge(registry: CollectorRegistry, name: str, text: str) -> Gauge:
    return Gauge(name, text, ["name"], registry=registry)


def _counter(registry: CollectorRegistry, name: str, text: str) -> Counter:
    return Counter(name, text, ["name"], registry=registry)


def _histogram(registry: CollectorRegistry, name: str, text: str) -> Histogram:
    return Histogram(name, text, ["name"], buckets=_QUEUE_BUCKETS, registry=registry)
