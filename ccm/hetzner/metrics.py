"""What the official CCM counts, by its names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class OfficialMetrics:
    """What the official CCM counts of its own work, for its dashboards and alerts.

    Args:
        mode: ``HCLOUD_SERVER_CACHE_MODE``.
    """

    def __init__(self, registry: CollectorRegistry, mode: str = "all") -> None:
        self._mode = mode
        self._operations = Counter(
            "cloud_controller_manager_operations_total",
            "The total number of operation was called.",
            ["op"],
            registry=registry,
        )
        self._lookups = Counter(
            "cloud_controller_manager_server_cache_requests_total",
            "Lookups of servers by result: hit is one that a list at hand answered.",
            ["subsystem", "mode", "result"],
            registry=registry,
        )
        self._type_lookups = Counter(
            "cloud_controller_manager_load_balancer_type_cache_requests_total",
            "Lookups of load balancer types by result: hit is one that a list at hand answered.",
            ["subsystem", "mode", "result"],
            registry=registry,
        )

    def operation(self, name: str) -> None:
        """Count a call of the controllers, by the official CCM's name for it."""
        self._operations.labels(name).inc()

    def lookup(self, subsystem: str, *, hit: bool) -> None:
        """Count a lookup of a server for ``instances_v2`` or ``routes``."""
        self._lookups.labels(subsystem, self._mode, "hit" if hit else "miss").inc()

    def type_lookup(self, *, hit: bool) -> None:
        """Count a lookup of load balancer types; the official CCM always keeps them in mode all."""
        self._type_lookups.labels("load_balancer", "all", "hit" if hit else "miss").inc()
