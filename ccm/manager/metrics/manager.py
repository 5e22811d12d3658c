"""Upstream's metrics that belong to no controller: queues, API requests, leadership, process."""

from __future__ import annotations

import platform

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from ccm.kube.lease import LeaseObserver
from ccm.kube.queue import WorkQueue
from ccm.kube.ratelimit import RetryLimiter
from ccm.manager.metrics.queues import QueuesMetrics
from ccm.manager.metrics.requests import RequestMetrics
from ccm.tracing import Tracer

MANAGER = "cloud-controller-manager"


class Metrics:
    """Metrics of this process on one registry.

    Args:
        version: Of this program.
        tracer: For the queues that are measured here; None for no traces.

    Attributes:
        requests: What transports report to.
    """

    def __init__(self, version: str, tracer: Tracer | None = None) -> None:
        self._tracer = tracer
        # Upstream has no "_created" series; they would double the number of counters.
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
        """A work queue that is measured under this name.

        Args:
            name: The label's value.
            limiter: How long failed keys wait; client-go's default if not given.
        """
        queue = WorkQueue(name, limiter=limiter, observer=self._queues.observer(name), tracer=self._tracer)
        self._queues.watched[name] = queue.ages
        return queue

    def longest_work(self) -> dict[str, float]:
        """By queue, for how many seconds the oldest key that is worked on has been."""
        return {name: max(ages(), default=0.0) for name, ages in self._queues.watched.items()}

    def running(self, name: str, *, running: bool) -> None:
        """A controller (by its old name, as upstream) started or ended."""
        self._running.labels(name, MANAGER).set(1 if running else 0)

    def lease(self, name: str) -> LeaseObserver:
        """What leader election by this lease reports to."""
        leading = self._leading.labels(name)
        leading.set(0)
        return LeaseObserver(leading.set, self._slow_paths.labels(name).inc)
