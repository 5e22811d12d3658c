"""Upstream's metrics that don't belong to one controller: queues, API requests, leadership, process.

The code that counts a metric also declares its name, text and labels. So a search for a name from a dashboard
finds this code.
"""

import platform
from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from ccm.kube.backoff import RetryLimiter
from ccm.kube.http import Call, Transfer
from ccm.kube.lease import LeaseObserver
from ccm.kube.queue import QueueObserver, WorkQueue
from ccm.tracing import Tracer

MANAGER = "cloud-controller-manager"


class Metrics:
    """The metrics of this process in one registry. Transports report to ``requests``."""

    def __init__(self, version: str, tracer: Tracer | None = None) -> None:
        self._tracer = tracer
        # Upstream has no "_created" series, which would double the number of series for counters.
        disable_created_metrics()
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._queues = QueuesMetrics(self.registry)
        self.requests = RequestMetrics(self.registry)
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
        """Create a work queue with metrics; by default, the delays after failures are those of client-go."""
        queue = WorkQueue(name, limiter=limiter, observer=self._queues.observer(name), tracer=self._tracer)
        self._queues.watched[name] = queue.ages
        return queue

    def longest_work(self) -> dict[str, float]:
        """By queue, the seconds since a worker took the oldest key that is being processed."""
        return {name: max(ages(), default=0.0) for name, ages in self._queues.watched.items()}

    def running(self, name: str, *, running: bool) -> None:
        """Record the start or end of a controller, with upstream's old name."""
        self._running.labels(name, MANAGER).set(1 if running else 0)

    def lease(self, name: str) -> LeaseObserver:
        """The observer for the leader election with this lease."""
        leading = self._leading.labels(name)
        leading.set(0)
        return LeaseObserver(leading.set, self._slow_paths.labels(name).inc)


# 10 ns to 10 s in powers of ten, as in client-go.
_QUEUE_BUCKETS = [10.0**power for power in range(-8, 2)]


class QueuesMetrics(Collector):
    """The metrics of all queues: counters, and values that each scrape reads from the queues."""

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
        """The observer for one queue."""
        return QueueObserver(
            depth=self.depth.labels(name).set,
            added=self.adds.labels(name).inc,
            started=self.waited.labels(name).observe,
            finished=self.worked.labels(name).observe,
            retried=self.retries.labels(name).inc,
        )

    def collect(self) -> Iterator[Metric]:
        """The metrics for a scrape. Must run in the event loop, because it uses the loop's time."""
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


_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class RequestMetrics:
    """The metrics of requests to the API server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ["code", "method", "host"],
            registry=registry,
        )
        self._retries = Counter(
            "rest_client_request_retries_total",
            "Number of request retries, partitioned by status code, verb, and host.",
            ["code", "verb", "host"],
            registry=registry,
        )
        self._seconds = _histogram(
            registry, "request_duration_seconds", "Request latency in seconds", _SECONDS
        )
        self._waited = _histogram(
            registry, "rate_limiter_duration_seconds", "Client side rate limiter latency in seconds", _SECONDS
        )
        self._sent = _histogram(registry, "request_size_bytes", "Request size in bytes", _BYTES)
        self._received = _histogram(registry, "response_size_bytes", "Response size in bytes", _BYTES)

    def observe(self, seen: Call | Transfer) -> None:
        """Count a call or a transfer of a transport."""
        if isinstance(seen, Transfer):
            self._sent.labels(seen.verb, seen.host).observe(seen.sent)
            self._received.labels(seen.verb, seen.host).observe(seen.received)
            return
        self._requests.labels(seen.status, seen.verb, seen.host).inc()
        if seen.retry:
            self._retries.labels(seen.status, seen.verb, seen.host).inc()
        self._seconds.labels(seen.verb, seen.host).observe(seen.seconds)
        self._waited.labels(seen.verb, seen.host).observe(seen.waited)


def _histogram(registry: CollectorRegistry, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
    return Histogram(
        f"rest_client_{name}",
        f"{text}. Broken down by verb, and host.",
        ["verb", "host"],
        buckets=buckets,
        registry=registry,
    )
